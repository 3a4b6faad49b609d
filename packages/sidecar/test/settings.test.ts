import { describe, expect, it } from 'vitest';
import { daemonSettings, readSettings, settingsSchema } from '../src/settings.ts';

/** Name, default, lowest, and where it lands. */
const NUMBERS = [
  ['SANDBOX_SESSION_MAX_EXEC_COUNT', 500, 0, (s: Settings) => s.budget.execs],
  ['SANDBOX_SESSION_MAX_EXEC_SECONDS', 3600, 0, (s: Settings) => s.budget.seconds],
  ['SANDBOX_MAX_BACKGROUND_PROCESSES', 4, 1, (s: Settings) => s.processes.running],
  ['SANDBOX_PROCESS_OUTPUT_MAX_BYTES', 262_144, 4096, (s: Settings) => s.processes.outputBytes],
  ['SANDBOX_PROCESS_MAX_RUNTIME_SECONDS_CEILING', 14_400, 60, (s: Settings) => s.processes.maxRuntimeSeconds],
  ['SANDBOX_PROCESS_STOP_GRACE_PERIOD_SECONDS', 5, 1, (s: Settings) => s.processes.graceSeconds],
  ['SIDECAR_READ_IMAGE_MAX_DIM', 2048, 256, (s: Settings) => s.images.maxDimension],
  ['SIDECAR_READ_IMAGE_JPEG_QUALITY', 85, 30, (s: Settings) => s.images.jpegQuality],
  ['SIDECAR_READ_IMAGE_WEBP_QUALITY', 80, 30, (s: Settings) => s.images.webpQuality],
  ['SIDECAR_READ_IMAGE_PNG_COMPRESS_LEVEL', 6, 0, (s: Settings) => s.images.pngCompression],
  ['SIDECAR_GREP_TIMEOUT_SECONDS', 10, 1, (s: Settings) => s.grep.timeoutSeconds],
  ['SIDECAR_GREP_MAX_BYTES_SCANNED', 104_857_600, 1_000_000, (s: Settings) => s.grep.maxBytesScanned],
  ['INTERPRETER_IDLE_TIMEOUT_SECONDS', 900, 30, (s: Settings) => s.interpreter.idleSeconds],
  ['INTERPRETER_MAX_MEMORY_MB', 1024, 64, (s: Settings) => s.interpreter.memoryMb],
  ['INTERPRETER_MAX_OUTPUT_BYTES', 262_144, 4096, (s: Settings) => s.interpreter.outputBytes],
  ['INTERPRETER_STARTUP_TIMEOUT_SECONDS', 15, 1, (s: Settings) => s.interpreter.startupSeconds],
  ['INTERPRETER_MAX_EXEC_TIMEOUT_SECONDS', 300, 1, (s: Settings) => s.interpreter.maxCallSeconds],
  ['SYNC_FLUSH_INTERVAL_SEC', 30, 10, (s: Settings) => s.sync.flushSeconds],
  ['SYNC_RECONCILE_INTERVAL_SEC', 120, 30, (s: Settings) => s.sync.reconcileSeconds],
  ['SYNC_STABLE_CHECK_INTERVAL_MS', 750, 0, (s: Settings) => s.sync.stableMs],
  ['SYNC_SHUTDOWN_FLUSH_TIMEOUT_SEC', 20, 1, (s: Settings) => s.sync.shutdownSeconds],
] as const;
type Settings = ReturnType<typeof readSettings>;

describe.each(NUMBERS)('%s', (name, absent, least, read) => {
  it('has its default, also where it is blank', () => {
    expect([read(readSettings({})), read(readSettings({ [name]: ' ' }))]).toEqual([absent, absent]);
  });

  it('is read, down to its floor', () => {
    expect(read(readSettings({ [name]: ` ${least} ` }))).toBe(least);
    expect(read(readSettings({ [name]: String(absent) }))).toBe(absent);
  });

  it.each([
    ...(least > 0 ? [String(least - 1)] : []),
    ...['-1', 'many', '1e3', '0x10', '5s', 'NaN', 'Infinity', '9'.repeat(20)],
  ])('is refused by its name: %s', (text) => {
    expect(() => readSettings({ [name]: text })).toThrow(
      expect.objectContaining({ code: 'invalid_request', details: { field: name } }),
    );
  });
});

it('seconds of the budget may have a fraction, and no other number', () => {
  expect(readSettings({ SANDBOX_SESSION_MAX_EXEC_SECONDS: '0.5' }).budget.seconds).toBe(0.5);
  expect(() => readSettings({ SANDBOX_SESSION_MAX_EXEC_COUNT: '0.5' })).toThrow(/SANDBOX_SESSION_MAX_EXEC_COUNT/);
});

it('the whole search for changes is never more often than a flush', () => {
  expect(readSettings({ SYNC_FLUSH_INTERVAL_SEC: '600' }).sync.reconcileSeconds).toBe(600);
  expect(() => readSettings({ SYNC_FLUSH_INTERVAL_SEC: '60', SYNC_RECONCILE_INTERVAL_SEC: '59' })).toThrow(
    /SYNC_RECONCILE_INTERVAL_SEC/,
  );
});

it.each([
  ['STORAGE_BACKEND', 'fs', 's3'],
  ['SANDBOX_UID', '1001', '0'],
  ['SANDBOX_GID', '1001', '0'],
  ['SANDBOX_EXEC_NETWORK_ISOLATION_ENABLED', 'TRUE', 'false'],
  ['BACKEND_URL', 'https://backend.example/base', 'backend.example'],
  ['BACKEND_URL', 'http://10.0.0.1:8000', 'file:///etc/passwd'],
])('%s may be %s, and %s is refused', (name, fine, wrong) => {
  expect(() => readSettings({ [name]: fine })).not.toThrow();
  expect(() => readSettings({ [name]: wrong })).toThrow(
    expect.objectContaining({ code: 'invalid_request', details: { field: name } }),
  );
});

it('is plain data, the same after it was a file', () => {
  const settings = readSettings({ SYNC_IGNORE_DIRS: 'a, b,,', RUNTIME_MODE: 'compose' });
  expect(settingsSchema.parse(JSON.parse(JSON.stringify(settings)))).toEqual(settings);
  expect([settings.sync.ignoredDirectories, settings.runtimeMode]).toEqual([['a', 'b'], 'compose']);
});

it('a daemon bounds no use', () => {
  expect(daemonSettings.budget).toEqual({ execs: 0, seconds: 0 });
});
