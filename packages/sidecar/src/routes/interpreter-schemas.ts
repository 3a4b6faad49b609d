/** Requests of the interpreter's routes. */
import { numeric } from '@boxkite/protocol';
import { z } from 'zod';
import { clean, mostText } from './schema-parts.ts';

/** Body of `POST /interpreter/exec`. */
export const interpreterExecBody = z.object({
  code: clean.max(mostText).describe('Python; what it makes is there for the next call'),
  timeout: numeric.pipe(z.number().int()).optional().describe('Seconds, from 1 to the most that the deployment allows'),
});
