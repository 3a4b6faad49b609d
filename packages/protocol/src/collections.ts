import { z } from 'zod';

/** So few elements can't have many problems. */
const FEW = 64;

/** What `schema` may do with more: nothing but to say what is wrong with the first one. */
function wrapped<Schema extends z.ZodType>(schema: Schema, shorten: (value: unknown) => unknown) {
  return z.preprocess((value: z.input<Schema>) => shorten(value), schema);
}

/**
 * An array of a request, or a refined one. It is refused for its first wrong element alone: zod describes each of them, which
 * for millions of small ones takes far more memory than the body that they came in.
 */
export function list<Element extends z.ZodType>(
  element: Element,
  refine: (array: z.ZodArray<Element>) => z.ZodArray<Element> = (array) => array,
) {
  return wrapped(refine(z.array(element)), (value) => {
    if (!Array.isArray(value) || value.length <= FEW) return value;
    const items: readonly unknown[] = value;
    const wrong = items.findIndex((item) => !element.safeParse(item).success);
    return wrong < 0 ? items : items.slice(0, wrong + 1);
  });
}

/** An object of any names of a request, refused for its first wrong name or value alone. */
export function dictionary<Value extends z.ZodType>(name: z.ZodString, value: Value) {
  return wrapped(z.record(name, value), (given) => {
    if (typeof given !== 'object' || given === null || Object.keys(given).length <= FEW) return given;
    const wrong = Object.entries(given).find(
      ([key, item]) => !name.safeParse(key).success || !value.safeParse(item).success,
    );
    return wrong === undefined ? given : Object.fromEntries([wrong]);
  });
}
