/** Reads the JSON that a bench wrote. */
import { z } from 'zod';
import type { Comparison } from './comparison.ts';

const comparison = z.object({
  metric: z.object({
    name: z.string(),
    unit: z.enum(['ms', 's', 'MB/s', 'per s', 'MB']),
    better: z.enum(['lower', 'higher']),
    promise: z.number(),
    stretch: z.number().optional(),
  }),
  subject: z.number(),
  baseline: z.number().nullable(),
  value: z.number(),
  noise: z.number(),
  range: z.tuple([z.number(), z.number()]),
  verdict: z.enum(['stretch', 'kept', 'within noise', 'broken']),
  rounds: z.array(z.object({ subject: z.number(), baseline: z.tuple([z.number(), z.number()]) })),
});

const known = { name: z.string(), source: z.string(), what: z.string(), baseline: z.string() };

const row = z.discriminatedUnion('state', [
  z.object({ ...known, state: z.literal('measured'), comparisons: z.array(comparison) }),
  z.object({ ...known, state: z.literal('failed'), reason: z.string() }),
  z.object({ ...known, state: z.literal('missing'), reason: z.string(), hint: z.string() }),
]);

const document = z.object({
  circumstances: z.object({
    rounds: z.number(),
    scale: z.number(),
    cores: z.number(),
    kernel: z.string(),
    architecture: z.string(),
    node: z.string(),
    uid: z.number(),
    load_at_start: z.array(z.number()),
  }),
  rows: z.array(row),
});

/** What `--json` writes. */
export type BenchDocument = z.infer<typeof document>;

/** Parses it. Throws where it is something else. */
export function readBenchDocument(text: string): BenchDocument {
  return document.parse(JSON.parse(text));
}

/** The comparisons of a bench of one row. Throws TypeError with its reason where that row was not measured. */
export function readOnlyRow(text: string): readonly Comparison[] {
  const [first] = readBenchDocument(text).rows;
  if (first?.state === 'measured') return first.comparisons;
  throw new TypeError(first?.reason ?? 'no row was measured');
}
