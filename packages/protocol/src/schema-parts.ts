/** Parts that schemas share. */
import { z } from 'zod';
import { dictionary } from './collections.ts';
import { maxPathBytes, sandboxBounds } from './limits.ts';
import type { AllowedCommands } from './port.ts';

/** A number, or its decimal text; nothing else is made a number. */
export const numeric = z.union(
  [
    z.number(),
    z
      .string()
      .regex(/^-?\d{1,15}(\.\d{1,15})?$/, 'must be a number')
      .transform(Number),
  ],
  'must be a number',
);

/** A whole number from 1 on. A document shows what is taken in, so that bounds are said to it beside the schema. */
export function count(most: number, description: string) {
  return numeric.pipe(z.number().int().min(1).max(most)).meta({ description, minimum: 1, maximum: most });
}

/** A number of a sandbox, within its bounds. */
export function bounded(field: keyof typeof sandboxBounds, description: string) {
  const { least, most } = sandboxBounds[field];
  const inside = z.number().min(least).max(most);
  return numeric.pipe(field === 'cpus' ? inside : inside.int()).meta({ description, minimum: least, maximum: most });
}

/** A whole number from 0 on, as requests may send it. */
export function whole(description: string) {
  return numeric.pipe(z.number().int().min(0).max(Number.MAX_SAFE_INTEGER)).meta({ description, minimum: 0 });
}

/** Text that a program can get: no NUL byte and no half of a surrogate pair. */
export function text(description: string) {
  return z
    .string()
    .refine((value) => !value.includes('\0'), 'must not contain a NUL byte')
    .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')
    .describe(description);
}

/** A path in a sandbox or of the machine. */
export const path = (description: string) => text(description).min(1).max(maxPathBytes);

/** Variables by name. */
export const environment = dictionary(
  text('Name of a variable').regex(/^[^=]+$/, 'must be a name without "="'),
  text('Its value'),
).describe('Added to the fixed environment');

/** A list is checked as a whole by who applies it: what is wrong is then named by its key. */
export const allowedCommands: z.ZodType<AllowedCommands> = z
  .any()
  .describe(
    'Command allowlist: names of programs and rules, or {commands, enforce}; see docs/reference/policy/commands.md',
  );

/** A whole number of an answer. */
export const natural = z.number().int().min(0);

/** `true` or `false`, as a query writes it. */
export function flag(description: string) {
  return z
    .union([z.boolean(), z.enum(['true', 'false', '1', '0']).transform((value) => value === 'true' || value === '1')])
    .describe(description);
}
