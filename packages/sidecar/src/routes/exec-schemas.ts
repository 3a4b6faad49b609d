/** Requests of `/exec`: the reference's, and our additions. */
import { dictionary, execLimitsSchema, maxPathBytes, maxTerminalSize, numeric } from '@boxkite/protocol';
import { z } from 'zod';
import { clean, mostText } from './schema-parts.ts';

const size = numeric.pipe(z.number().int().min(1).max(maxTerminalSize));

/** A day: what takes longer is a background process. */
const mostTimeoutSeconds = 86_400;

/** Body of `POST /exec`: the reference's, and our additions. */
export const execBody = z.object({
  command: clean.max(mostText).describe('A line for sh -c; may be empty'),
  timeout: numeric
    .pipe(z.number().int().max(mostTimeoutSeconds))
    .optional()
    .describe('Seconds, default 30; 0 and less are over at once'),
  description: z.string().nullish().describe('For people; nothing keeps it'),
  secret_env: dictionary(z.string(), z.string()).nullish().describe('Names of variables to names of granted secrets'),
  cwd: clean.min(1).max(maxPathBytes).nullish().describe('Default /workspace'),
  stdin: clean.nullish().describe('Written and closed'),
  tty: z.object({ columns: size, rows: size }).nullish().describe('A terminal of this size; its output is stdout'),
  fresh: z.boolean().nullish().describe('A new envelope for this command alone'),
  network: z.enum(['none', 'session']).nullish().describe('Default none; session is refused: no command has a network'),
  overflow: z.enum(['drop', 'block']).nullish(),
  limits: execLimitsSchema.nullish(),
});
