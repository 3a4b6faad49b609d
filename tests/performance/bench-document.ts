/** Reads the JSON of a bench that ran in another process. */
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

const document = z.object({
  rows: z.tuple([
    z.union([
      z.object({ state: z.literal('measured'), comparisons: z.array(comparison) }),
      z.object({ state: z.enum(['failed', 'missing']), reason: z.string() }),
    ]),
  ]),
});

/** The comparisons of a bench of one row. Throws TypeError with its reason where that row was not measured. */
export function readOnlyRow(text: string): readonly Comparison[] {
  const [row] = document.parse(JSON.parse(text)).rows;
  if (row.state === 'measured') return row.comparisons;
  throw new TypeError(row.reason);
}
