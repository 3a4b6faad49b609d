/** Requests of `/tool-call`. */
import { z } from 'zod';
import { clean } from './schema-parts.ts';

/** Body of `POST /tool-call`. */
export const toolCallBody = z.object({
  tool_name: clean.min(1).max(256),
  arguments: z.record(z.string(), z.unknown()).nullish(),
  session_id: z.unknown().optional().describe('Ignored: the call is made in the name of the session itself'),
});
