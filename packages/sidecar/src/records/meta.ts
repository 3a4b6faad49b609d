/** What the journal says of an exec. */
import { type Effective, type ExecRecord, effectiveSchema, execRecordSchema } from '@boxkite/protocol';
import { z } from 'zod';

const natural = z.number().int().min(0);

const startSchema = z.object({
  /** Rises with each exec of the sandbox. */
  sequence: natural,
  exec_id: z.string(),
  /** The life of the runner that it belongs to, and its number there. */
  instance: z.string(),
  runner_exec: z.string(),
  argv: z.array(z.string()),
  cwd: z.string(),
  tty: z.boolean(),
  started_at: z.string(),
  /** When its time is over, ms since 1970; `null` without a limit. */
  deadline: z.number().nullable(),
  block: z.boolean(),
  /** Bytes of each log that were asked for. */
  window: z.object({ head: natural, tail: natural }),
  /** Which of the frozen sets of known values it has; `null` for none. */
  known: z.string().nullable(),
});

const logSchema = z.object({
  end: natural,
  headEnd: natural,
  tailFrom: natural,
  /** Sizes of its file; `null` where its bytes are in the entry. */
  file: z.object({ head: natural, tail: natural }).nullable(),
});

const endSchema = startSchema.extend({
  record: execRecordSchema.omit({ effective: true }),
  stdout: logSchema,
  stderr: logSchema,
});

/** What is known from the start on. */
export type StartMeta = z.output<typeof startSchema>;
/** Where the log of an ended exec is. */
export type LogMeta = z.output<typeof logSchema>;
/** What is known at the end; the record's `effective` is beside it. */
export type EndMeta = z.output<typeof endSchema>;

/** Reads the meta of a start entry; `null` where it is none. */
export function parseStart(meta: string): StartMeta | null {
  return parse(startSchema, meta);
}

/** Reads the meta of an end entry; `null` where it is none. */
export function parseEnd(meta: string): EndMeta | null {
  return parse(endSchema, meta);
}

/** Reads what was measured; `null` where it is nothing of that. */
export function parseEffective(text: string): Effective | null {
  return parse(effectiveSchema, text);
}

/** The journal is checked by its sums; what does not fit is of another version. */
function parse<T>(schema: z.ZodType<T>, text: string): T | null {
  try {
    const parsed = schema.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}

const texts = new WeakMap<Effective, string>();

/** JSON of what was measured; many execs share the object. */
export function effectiveText(effective: Effective): string {
  const known = texts.get(effective);
  if (known !== undefined) return known;
  const text = JSON.stringify(effective);
  texts.set(effective, text);
  return text;
}

/** The record without what is kept beside it. */
export function bareRecord(record: ExecRecord): Omit<ExecRecord, 'effective'> {
  const { effective: _, ...rest } = record;
  return rest;
}
