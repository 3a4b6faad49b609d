/** Requests and answers of background processes: the reference's, and our additions. */
import { numeric } from '@boxkite/protocol';
import { z } from 'zod';
import { clean, mostText } from './schema-parts.ts';

/** Body of `POST /process/start`. */
export const startBody = z.object({
  command: clean.max(mostText).describe('A line for sh -c'),
  description: clean.max(10_000).nullish().describe('For people'),
  max_runtime_seconds: numeric.pipe(z.number().int()).describe('Everything of it is killed then'),
  expose_port: numeric.pipe(z.number().int()).nullish().describe('No port can be reached yet: refused by unsupported'),
});

/** Path parameters of one process. */
export const processParams = z.object({ id: z.string().describe('process_id of the process') });

/** Query of `GET /process/{id}/output`. */
export const outputQuery = z.object({
  since_offset: numeric
    .pipe(z.number().int())
    .optional()
    .describe('Bytes of its output that are known: next_offset of the answer before. Below 0: 0'),
});

/** Body of `POST /process/{id}/input`. */
export const inputBody = z.object({
  data: z
    .string()
    .max(mostText)
    .refine((value) => value.isWellFormed(), 'must be well-formed Unicode'),
});

const status = z
  .enum(['running', 'exited', 'stopped', 'killed'])
  .describe('stopped: by a stop; killed: at its maximum runtime, by kill-all, out of memory');
const exit_code = z.number().int().nullable().describe('Minus the number of the signal that ended it');
const started = { process_id: z.string(), status, started_at: z.string().describe('ISO 8601, UTC') };

/** The answer to `POST /process/start`. */
export const startedAnswer = z.object({ ...started, exec_id: z.string().describe('Its record: /execs/{exec_id}') });

/** The answer to `GET /process`. */
export const listAnswer = z.object({
  processes: z.array(
    z.object({
      ...started,
      exec_id: z.string(),
      command: z.string(),
      description: z.string().nullable(),
      exit_code,
      expose_port: z.null(),
    }),
  ),
});

/** The answer to `GET /process/{id}/output`. */
export const outputAnswer = z.object({
  status,
  stdout_chunk: z.string().describe('stdout and stderr in their order; no character is cut'),
  next_offset: z.number().int().min(0),
  truncated: z.boolean().describe('Bytes between since_offset and the chunk are no longer kept'),
  exit_code,
});

/** The answer to `POST /process/{id}/input`. */
export const inputAnswer = z.object({
  bytes_written: z.number().int().min(0).describe('Fewer than were sent where the process does not read them'),
});

/** The answer to `POST /process/{id}/stop`. */
export const stoppedAnswer = z.object({ status, exit_code });

/** The answer to `POST /process/kill-all`. */
export const killedAnswer = z.object({ killed: z.number().int().min(0) });
