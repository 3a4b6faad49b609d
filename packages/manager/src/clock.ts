import { readFileSync } from 'node:fs';

/** Time, as the manager sees it. Deadlines count `monotonic`; people read `wall`. */
export interface Clock {
  /** ms since 1970; may jump. */
  wall(): number;
  /** ms since some moment of this boot of the machine; never jumps, and is the same in every process. */
  monotonic(): number;
  /** Names this boot of the machine; `monotonic` of another one says nothing. */
  readonly boot: string;
  /** Calls back once, after so many ms; keeps no process alive. Returns what cancels it. */
  timer(ms: number, callback: () => void): () => void;
}

const NANOSECONDS = 1_000_000n;

/** The clocks of this machine. */
export function systemClock(): Clock {
  return {
    wall: Date.now,
    monotonic: () => Number(process.hrtime.bigint() / NANOSECONDS),
    boot: bootId(),
    timer: (ms, callback) => {
      const timer = setTimeout(callback, ms);
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
}

/** Where the kernel does not say it, every process counts as a boot of its own: wall time decides across restarts. */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return `process-${process.pid}-${Date.now()}`;
  }
}
