/** The real process behind `CommandIo`. */
import { spawnSync } from 'node:child_process';
import { fstatSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { isatty } from 'node:tty';
import { FileOutput, isFileOutput } from './file-output.ts';
import type { CommandIo } from './io.ts';

const FALLBACK_SIZE = { columns: 80, rows: 24 } as const;
/** Device number 1:3, which is `/dev/null` on every Linux. */
const NULL_DEVICE = (1 << 8) | 3;

function isNullDevice(): boolean {
  try {
    const found = fstatSync(0);
    return found.isCharacterDevice() && found.rdev === NULL_DEVICE;
  } catch {
    // No descriptor 0 at all gives nothing to read either.
    return true;
  }
}

/** A `CommandIo` whose messages can be waited for too. */
export interface ProcessIo extends CommandIo {
  /** Resolves when all of standard error has left this process, or its reader has. */
  flushMessages(): Promise<void>;
}

/** One stream of output. It is made at its first use: making one only to flush it would cost time. */
class Output {
  readonly #make: () => Writable;
  #stream: Writable | null = null;
  #failure: Error | null = null;

  constructor(make: () => Writable) {
    this.#make = make;
  }

  use(): Writable {
    if (this.#stream !== null) return this.#stream;
    this.#stream = this.#make();
    this.#stream.on('error', (error) => {
      this.#failure ??= error;
    });
    return this.#stream;
  }

  async written(): Promise<Error | null> {
    const stream = this.#stream;
    if (stream === null || this.#failure !== null) return this.#failure;
    if (stream.writableLength > 0) await new Promise<void>((resolve) => stream.write('', () => resolve()));
    // A failure is told some ticks after the write that met it.
    await new Promise((resolve) => setImmediate(resolve));
    return this.#failure;
  }
}

/** `env` is given by the composition root, the only reader of the environment. */
export function processIo(env: Readonly<Record<string, string | undefined>>): ProcessIo {
  const stdout = new Output(() => (isFileOutput(1) ? new FileOutput(1) : process.stdout));
  const stderr = new Output(() => process.stderr);
  return {
    env,
    stdin: () => process.stdin,
    stdout: () => stdout.use(),
    stderr: () => stderr.use(),
    written: () => stdout.written(),
    flushMessages: async () => void (await stderr.written()),
    terminal: isatty(0) && isatty(1),
    stdinEmpty: isNullDevice(),
    isTerminal: (descriptor) => isatty(descriptor),
    terminalSize: () => {
      const { columns, rows } = process.stdout;
      // A terminal that was never told its size says 0.
      return columns > 0 && rows > 0 ? { columns, rows } : FALLBACK_SIZE;
    },
    setRawMode: (raw) => {
      if (!process.stdin.isTTY || process.stdin.destroyed) return;
      process.stdin.setRawMode(raw);
      // Node's raw mode goes on to turn LF into CR LF, which the sandbox's own terminal has done already. Where stty is
      // missing, lines end in CR CR LF, which shows the same. Leaving raw mode sets all modes back.
      if (raw) spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] });
    },
    onSignal: (signals, listener) => {
      for (const signal of signals) process.on(signal, listener);
      return () => {
        for (const signal of signals) process.off(signal, listener);
      };
    },
  };
}
