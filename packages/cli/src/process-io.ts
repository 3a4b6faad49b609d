/** The real process behind `CommandIo`. */
import { spawnSync } from 'node:child_process';
import { fstatSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { isatty } from 'node:tty';
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

/** A `CommandIo` whose output can be waited for. */
export interface ProcessIo extends CommandIo {
  /** Resolves when all output has left this process, or its reader has. */
  flush(): Promise<void>;
}

/** Remembers which streams are used: making one only to flush it would cost time. */
class Outputs {
  readonly #used = new Set<Writable>();

  use(stream: Writable): Writable {
    if (!this.#used.has(stream)) {
      this.#used.add(stream);
      // A reader that has gone away is nobody to report to; who has to know listens by itself.
      stream.on('error', () => undefined);
    }
    return stream;
  }

  async flush(): Promise<void> {
    await Promise.all(
      [...this.#used].map((stream) => new Promise<void>((resolve) => stream.write('', () => resolve()))),
    );
  }
}

/** `env` is given by the composition root, the only reader of the environment. */
export function processIo(env: Readonly<Record<string, string | undefined>>): ProcessIo {
  const outputs = new Outputs();
  return {
    env,
    stdin: () => process.stdin,
    stdout: () => outputs.use(process.stdout),
    stderr: () => outputs.use(process.stderr),
    flush: () => outputs.flush(),
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
