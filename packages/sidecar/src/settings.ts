/** The limits of a deployment: the reference's variables, read once by whoever starts a sidecar. */
import { BoxkiteError } from '@boxkite/protocol';
import { z } from 'zod';
import { DEPLOYMENT_LIST, readList } from './session/allowed-commands.ts';

/** What sidecars are set to. Plain data: a launcher hands it on as a file, not as an environment. */
export const settingsSchema = z.object({
  /** Shown by `/health`. */
  runtimeMode: z.string(),
  /** Of one generation; 0: no bound. */
  budget: z.object({ execs: z.number(), seconds: z.number() }),
  processes: z.object({
    /** At one time. */
    running: z.number(),
    outputBytes: z.number(),
    maxRuntimeSeconds: z.number(),
    /** Between SIGTERM and SIGKILL. */
    graceSeconds: z.number(),
  }),
  images: z.object({
    maxDimension: z.number(),
    jpegQuality: z.number(),
    webpQuality: z.number(),
    pngCompression: z.number(),
  }),
  grep: z.object({ timeoutSeconds: z.number(), maxBytesScanned: z.number() }),
  interpreter: z.object({
    idleSeconds: z.number(),
    memoryMb: z.number(),
    outputBytes: z.number(),
    startupSeconds: z.number(),
    maxCallSeconds: z.number(),
  }),
  sync: z.object({
    flushSeconds: z.number(),
    reconcileSeconds: z.number(),
    stableMs: z.number(),
    shutdownSeconds: z.number(),
    /** Names of directories whose files are not stored; a flush says which it left out. Default: none. */
    ignoredDirectories: z.array(z.string()),
  }),
  /** Base of `/tool-call`'s backend; `null`: none. */
  backendUrl: z.string().nullable(),
  /** JSON of the command allowlist that every command needs; `null`: none. */
  allowedCommands: z.string().nullable(),
});

/** See `settingsSchema`. */
export type SidecarSettings = z.output<typeof settingsSchema>;

/** Variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

interface Bound {
  readonly min: number;
  readonly max?: number;
  readonly whole?: false;
}

const DAY_SECONDS = 86_400;
/** Variables of the reference that can say nothing else here. */
const FIXED: readonly (readonly [name: string, value: RegExp, why: string])[] = [
  ['STORAGE_BACKEND', /^fs$/, 'is to be fs: files are stored in the data directory'],
  ['SANDBOX_UID', /^1001$/, 'is to be 1001: that is who every command runs as'],
  ['SANDBOX_GID', /^1001$/, 'is to be 1001: that is who every command runs as'],
  ['SANDBOX_EXEC_NETWORK_ISOLATION_ENABLED', /^(1|true|yes|on)$/i, 'is to be true: no command has a network'],
];

/** Errors: `invalid_request` that names the variable and its rule. */
export function readSettings(environment: Environment): SidecarSettings {
  const number = (name: string, absent: number, bound: Bound): number => numberOf(environment, name, absent, bound);
  const text = (name: string): string | null => environment[name]?.trim() || null;
  const interpreter = 'INTERPRETER';
  for (const [name, value, why] of FIXED) refuseOther(name, text(name), value, why);
  return {
    runtimeMode: text('RUNTIME_MODE') ?? 'local',
    budget: {
      execs: number('SANDBOX_SESSION_MAX_EXEC_COUNT', 500, { min: 0 }),
      seconds: number('SANDBOX_SESSION_MAX_EXEC_SECONDS', 3600, { min: 0, whole: false }),
    },
    processes: {
      running: number('SANDBOX_MAX_BACKGROUND_PROCESSES', 4, { min: 1, max: 1024 }),
      outputBytes: number('SANDBOX_PROCESS_OUTPUT_MAX_BYTES', 262_144, { min: 4096, max: 64 * 1024 * 1024 }),
      maxRuntimeSeconds: number('SANDBOX_PROCESS_MAX_RUNTIME_SECONDS_CEILING', 14_400, {
        min: 60,
        max: 30 * DAY_SECONDS,
      }),
      graceSeconds: number('SANDBOX_PROCESS_STOP_GRACE_PERIOD_SECONDS', 5, { min: 1, max: 3600 }),
    },
    images: {
      maxDimension: number('SIDECAR_READ_IMAGE_MAX_DIM', 2048, { min: 256, max: 8192 }),
      jpegQuality: number('SIDECAR_READ_IMAGE_JPEG_QUALITY', 85, { min: 30, max: 95 }),
      webpQuality: number('SIDECAR_READ_IMAGE_WEBP_QUALITY', 80, { min: 30, max: 95 }),
      pngCompression: number('SIDECAR_READ_IMAGE_PNG_COMPRESS_LEVEL', 6, { min: 0, max: 9 }),
    },
    grep: {
      timeoutSeconds: number('SIDECAR_GREP_TIMEOUT_SECONDS', 10, { min: 1, max: 600 }),
      maxBytesScanned: number('SIDECAR_GREP_MAX_BYTES_SCANNED', 104_857_600, { min: 1_000_000 }),
    },
    interpreter: {
      idleSeconds: number(`${interpreter}_IDLE_TIMEOUT_SECONDS`, 900, { min: 30, max: 30 * DAY_SECONDS }),
      memoryMb: number(`${interpreter}_MAX_MEMORY_MB`, 1024, { min: 64 }),
      outputBytes: number(`${interpreter}_MAX_OUTPUT_BYTES`, 262_144, { min: 4096, max: 16 * 1024 * 1024 }),
      startupSeconds: number(`${interpreter}_STARTUP_TIMEOUT_SECONDS`, 15, { min: 1, max: 600 }),
      maxCallSeconds: number(`${interpreter}_MAX_EXEC_TIMEOUT_SECONDS`, 300, { min: 1, max: DAY_SECONDS }),
    },
    sync: readSync(environment, number),
    backendUrl: webAddress('BACKEND_URL', text('BACKEND_URL')),
    allowedCommands: deploymentList(text(DEPLOYMENT_LIST)),
  };
}

/** Of the sandboxes of a daemon, whose callers bound what they want bounded. */
export const daemonSettings: SidecarSettings = { ...readSettings({}), budget: { execs: 0, seconds: 0 } };

function refuseOther(name: string, text: string | null, value: RegExp, why: string): void {
  if (text !== null && !value.test(text)) throw refusal(name, `${name} ${why}`);
}

/** Errors: `invalid_request` for what is no address of a web server. */
function webAddress(name: string, text: string | null): string | null {
  if (text === null || /^https?:$/.test(URL.parse(text)?.protocol ?? '')) return text;
  throw refusal(name, `${name} is to be an address that begins with http:// or https://`);
}

function refusal(field: string, message: string): BoxkiteError {
  return new BoxkiteError('invalid_request', message, {
    hint: 'Correct the variable, or leave it out for its default.',
    details: { field },
  });
}

function readSync(
  environment: Environment,
  number: (name: string, absent: number, bound: Bound) => number,
): SidecarSettings['sync'] {
  const flushSeconds = number('SYNC_FLUSH_INTERVAL_SEC', 30, { min: 10, max: DAY_SECONDS });
  const ignored = environment['SYNC_IGNORE_DIRS'] ?? '';
  return {
    flushSeconds,
    reconcileSeconds: number('SYNC_RECONCILE_INTERVAL_SEC', Math.max(120, flushSeconds), {
      min: flushSeconds,
      max: DAY_SECONDS,
    }),
    stableMs: number('SYNC_STABLE_CHECK_INTERVAL_MS', 750, { min: 0, max: 60_000 }),
    shutdownSeconds: number('SYNC_SHUTDOWN_FLUSH_TIMEOUT_SEC', 20, { min: 1, max: 3600 }),
    ignoredDirectories: ignored
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== ''),
  };
}

/** The same text, once it is a list. `name` is what messages call it. Errors: `invalid_request`, which names line and key. */
export function deploymentList(text: string | null, name = DEPLOYMENT_LIST): string | null {
  readList(text, name);
  return text;
}

function numberOf(environment: Environment, name: string, absent: number, bound: Bound): number {
  const text = environment[name]?.trim() ?? '';
  if (text === '') return absent;
  const value = /^\d{1,15}(\.\d{1,6})?$/.test(text) ? Number(text) : Number.NaN;
  const isWhole = bound.whole === false || Number.isInteger(value);
  if (isWhole && value >= bound.min && value <= (bound.max ?? Number.MAX_SAFE_INTEGER)) return value;
  const kind = bound.whole === false ? 'a number' : 'a whole number';
  const range = bound.max === undefined ? `of at least ${bound.min}` : `from ${bound.min} to ${bound.max}`;
  throw refusal(name, `${name} is to be ${kind} ${range}`);
}
