/** What sandboxes use, second by second. */
import type { SandboxWithUsage } from '@boxkite/protocol';

/** A sandbox with its share of CPU since the sample before. */
export interface SampledSandbox extends SandboxWithUsage {
  /** 100 is one core; `null` where it isn't known, and in the first sample. */
  readonly cpu_percent: number | null;
}

/** All sandboxes at one moment. */
export interface Sample {
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly sandboxes: readonly SampledSandbox[];
}

interface Seen {
  readonly cpu_ms: number;
  readonly at: number;
}

/** Turns lists into samples. */
export class Sampler {
  #seen = new Map<string, Seen>();

  /** `at`: ms of a steady clock when the list was made; `now`: of the wall clock. The busiest come first. */
  next(list: readonly SandboxWithUsage[], at: number, now: number): Sample {
    const seen = new Map<string, Seen>();
    const sandboxes = list.map((sandbox): SampledSandbox => {
      const cpu_ms = sandbox.usage?.cpu_ms ?? null;
      if (cpu_ms !== null) seen.set(sandbox.id, { cpu_ms, at });
      return { ...sandbox, cpu_percent: share(this.#seen.get(sandbox.id), cpu_ms, at) };
    });
    this.#seen = seen;
    return { at: new Date(now).toISOString(), sandboxes: sandboxes.sort(busierFirst) };
  }
}

function share(before: Seen | undefined, cpu_ms: number | null, at: number): number | null {
  // A count that falls began anew, with another runner.
  if (before === undefined || cpu_ms === null || cpu_ms < before.cpu_ms || at <= before.at) return null;
  return Math.round(((cpu_ms - before.cpu_ms) / (at - before.at)) * 1000) / 10;
}

/** By CPU, then execs, then those that are ready; the id keeps those that do nothing in their places. */
function busierFirst(a: SampledSandbox, b: SampledSandbox): number {
  return (
    (b.cpu_percent ?? 0) - (a.cpu_percent ?? 0) ||
    (b.usage?.execs ?? 0) - (a.usage?.execs ?? 0) ||
    Number(b.state === 'ready') - Number(a.state === 'ready') ||
    (a.id < b.id ? -1 : 1)
  );
}
