import { z } from 'zod';
import { list } from './collections.ts';
import { maxTerminalSize } from './limits.ts';
import { count, environment, flag, natural, numeric, path, text, whole } from './schema-parts.ts';
import { execLimitsSchema, execRecordSchema } from './schemas.ts';

/** Execs of `/v1`: their requests and answers. */

/** Seconds that `POST …/exec` gives a command where its body does not say: its answer comes before a client's own 30. */
export const defaultExecTimeoutSeconds = 28;
/** Longest time limit: a year. */
export const maxExecTimeoutSeconds = 31_536_000;

/** Base64 of RFC 4648 with its padding. */
const base64 = z.string().regex(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/, 'must be base64');

const size = {
  columns: count(maxTerminalSize, 'Columns'),
  rows: count(maxTerminalSize, 'Rows'),
};

const common = {
  command: text('A line for /bin/sh -c').min(1).optional(),
  argv: list(text('Program or argument'), (argv) =>
    argv.min(1).refine((words) => words[0] !== '', 'must begin with a program'),
  )
    .optional()
    .describe('Program and arguments, which no shell sees'),
  timeout: numeric
    .pipe(z.number().gt(0).max(maxExecTimeoutSeconds))
    .nullish()
    .describe('Seconds; null is no limit. Default 28 of exec, none of execs'),
  cwd: path('Default /workspace').nullish(),
  env: environment.nullish(),
  secret_env: environment
    .nullish()
    .describe('Added to the environment; the values are masked wherever output shows them'),
  stdin: z
    .string()
    .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')
    .optional()
    .describe('Written and closed'),
  stdin_base64: base64.optional().describe('The same as base64'),
  fresh: z.boolean().nullish().describe('A new envelope for this command alone'),
  network: z.enum(['none', 'session']).nullish().describe('Default none; session is refused: no command has a network'),
  limits: execLimitsSchema.nullish(),
  overflow: z
    .enum(['drop', 'block'])
    .nullish()
    .describe('drop: volume never stops a command whose reader is away; block: lossless back-pressure'),
};

const oneCommand = {
  check: (body: { command?: string | undefined; argv?: readonly string[] | undefined }) =>
    (body.command === undefined) !== (body.argv === undefined),
  message: 'give exactly one of command and argv',
};

/** Body of `POST …/exec`. */
export const execBody = z
  .object(common)
  .refine(oneCommand.check, { error: oneCommand.message, path: ['command'] })
  .refine((body) => body.stdin === undefined || body.stdin_base64 === undefined, {
    error: 'give one of stdin and stdin_base64',
    path: ['stdin'],
  })
  .describe('A command that is answered when it has ended; a client that leaves ends it');

/** Body of `POST …/execs`. */
export const startExecBody = z
  .object({
    ...common,
    stdin_open: z.boolean().optional().describe('Its standard input is written later, until close-stdin'),
    tty: z.object(size).nullish().describe('A terminal of this size instead of pipes; its output is stdout'),
  })
  .refine(oneCommand.check, { error: oneCommand.message, path: ['command'] })
  .refine(
    (body) =>
      [body.stdin !== undefined, body.stdin_base64 !== undefined, body.stdin_open === true].filter(Boolean).length < 2,
    { error: 'give one of stdin, stdin_base64 and stdin_open', path: ['stdin'] },
  )
  .describe('A command that is answered when it has started');

/** The answer to `POST …/exec`: the record, and the output as far as it is kept. */
export const execAnswer = execRecordSchema
  .extend({
    exit_code: z
      .number()
      .int()
      .describe('As a shell says it: 128 + signal, 124 after the time limit, 137 out of memory or killed'),
    exit_status: z.number().int().nullable().describe('The exit status itself, null unless it exited'),
    stdout: z.string().describe('UTF-8; other bytes are shown as U+FFFD'),
    stderr: z.string(),
    stdout_base64: z.string().optional().describe('The bytes themselves, only where they are not UTF-8'),
    stderr_base64: z.string().optional(),
    stdout_truncated: z.boolean().describe('The first and the last bytes are kept, those between are not'),
    stderr_truncated: z.boolean(),
  })
  .describe('A command that has ended');

/** An exec as lists and status calls show it. */
export const execSummary = z
  .object({
    exec_id: z.string(),
    state: z.enum(['starting', 'running', 'ended']),
    argv: z.array(z.string()),
    cwd: z.string(),
    tty: z.boolean(),
    started_at: z.string().describe('ISO 8601, UTC'),
    ended_at: z.string().nullable(),
    stdout_bytes: natural.describe('Where the next byte of its log will be'),
    stderr_bytes: natural,
    record: execRecordSchema.nullable().describe('null while it runs'),
  })
  .describe('One exec');

/** The answer to `GET …/execs`. */
export const execList = z.object({ execs: z.array(execSummary) });

/** Query of `GET …/execs/{eid}/output`. */
export const outputQuery = z.object({
  stream: z.enum(['stdout', 'stderr']).optional().describe('This one alone; without it both'),
  offset: whole('Where `stream` begins').optional(),
  stdout_offset: whole('Where standard output begins').optional(),
  stderr_offset: whole('Where standard error begins').optional(),
  follow: flag('Until the exec has ended; default true, of raw bytes false').optional(),
});

/** Query of `GET …/execs/{eid}/attach`. */
export const attachQuery = z.object({
  stdout_offset: whole('Where standard output begins').optional(),
  stderr_offset: whole('Where standard error begins').optional(),
});

/** Body of `POST …/execs/{eid}/signal`. */
export const signalBody = z
  .object({
    signal: z
      .union([
        z.string().regex(/^[A-Za-z0-9+]{1,16}$/, 'must be the name of a signal'),
        z.number().int().min(1).max(64),
      ])
      .optional()
      .describe('Name or number, to the process group of the command'),
    all: z.boolean().optional().describe('Kills everything that the command started'),
  })
  .refine((body) => (body.signal === undefined) !== (body.all !== true), {
    error: 'give a signal, or all',
    path: ['signal'],
  });

/** Body of `POST …/execs/{eid}/resize`. */
export const resizeBody = z.object(size);

/** The answer to `POST …/execs/{eid}/input`. */
export const inputAnswer = z.object({ bytes_written: natural });

/** Body of `POST …/processes`: the reference's. */
export const startProcessBody = z.object({
  command: text('A line for /bin/sh -c').min(1),
  max_runtime_seconds: count(14_400, 'Everything of it is killed then'),
  description: text('For people').max(500).nullish(),
  expose_port: count(65_535, 'No port can be reached here: refused by unsupported').nullish(),
});

const processStatus = z
  .enum(['running', 'exited', 'stopped', 'killed'])
  .describe('stopped: by a stop; killed: by its limits or with its sandbox');

/** The answer to `POST …/processes`. */
export const startedProcess = z.object({ process_id: z.string(), status: processStatus, started_at: z.string() });

/** The answer to `GET …/processes`. */
export const processList = z.object({
  processes: z.array(
    startedProcess.extend({
      command: z.string(),
      description: z.string().nullable(),
      exit_code: z.number().int().nullable(),
      expose_port: z.number().int().nullable(),
    }),
  ),
});

/** Query of a process's output and stream. */
export const processOutputQuery = z.object({
  since_offset: whole('Bytes of standard output that are known').optional(),
});

/** The answer to `GET …/processes/{pid}/output`. */
export const processOutput = z.object({
  status: processStatus,
  stdout_chunk: z.string(),
  next_offset: natural,
  truncated: z.boolean().describe('Bytes between since_offset and the chunk are no longer kept'),
  exit_code: z.number().int().nullable(),
});

/** Body of `POST …/processes/{pid}/input`. */
export const processInputBody = z.object({ data: z.string().min(1).max(10_485_760) });

/** The answer to `POST …/processes/{pid}/stop`. */
export const stoppedProcess = z.object({ status: processStatus, exit_code: z.number().int().nullable() });

/** See `execBody`. */
export type ExecBody = z.input<typeof execBody>;
/** See `startExecBody`. */
export type StartExecBody = z.input<typeof startExecBody>;
/** See `execAnswer`. */
export type ExecAnswer = z.output<typeof execAnswer>;
/** See `execSummary`. */
export type ExecSummaryJson = z.output<typeof execSummary>;
/** See `startedProcess`. */
export type ProcessStatus = z.output<typeof processStatus>;
