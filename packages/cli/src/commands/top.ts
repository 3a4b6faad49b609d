/** `boxkite top`: what sandboxes use, live. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServerPort } from '@boxkite/protocol';
import type { Call, Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { EXIT } from '../exit-status.ts';
import { gather } from '../gather.ts';
import { frameLines, rowsShown } from '../top/frame.ts';
import type { Sample } from '../top/samples.ts';
import { Sampler } from '../top/samples.ts';
import type { Key } from '../top/screen.ts';
import { Screen } from '../top/screen.ts';

const INTERVAL_MS = 1000;
/** A daemon that needs longer is told about; the next question follows. */
const ANSWER_MS = 10_000;

const options = {
  once: { value: null, help: 'measure for one second, print all and end; so it does without a terminal' },
  ...commonOptions,
  json: { value: null, help: 'print one JSON object a second and line: `at`, `sandboxes`' },
} as const;

/** Runs `boxkite top`. */
export const topCommand: Command = defineCommand({
  name: 'top',
  about: `Shows each second what sandboxes use, the busiest first: share of CPU (100 is one core), memory, processes and the execs
that run. q or Ctrl-C ends it; arrows, PgUp and PgDn scroll.`,
  options,
  examples: [
    ['boxkite top', 'live'],
    ['boxkite top --once --json', 'one sample for a program'],
  ],
  run: async (call) => {
    const source = new Source(await call.server());
    const { signal } = call.interrupts;
    const once = call.options.has('once');
    if (call.json) return stream(call, source, once, signal);
    if (!once && call.io.isTerminal(1)) return new Live(call, source).run();
    const sample = await source.measured(signal);
    call.print(frameLines(sample, { size: null, scroll: 0, problem: null, paint: call.paint }).join('\n'));
    return EXIT.ok;
  },
});

type TopCall = Call<typeof options>;

class Source {
  readonly #server: ServerPort;
  readonly #sampler = new Sampler();

  constructor(server: ServerPort) {
    this.#server = server;
  }

  async sample(signal: AbortSignal): Promise<Sample> {
    const list = await gather(this.#server.usage(AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)])));
    return this.#sampler.next(list, performance.now(), Date.now());
  }

  /** A sample that has a share of CPU. */
  async measured(signal: AbortSignal): Promise<Sample> {
    await this.sample(signal);
    await sleep(INTERVAL_MS, undefined, { signal });
    return this.sample(signal);
  }
}

async function stream(call: TopCall, source: Source, once: boolean, signal: AbortSignal): Promise<number> {
  const stdout = call.io.stdout();
  let broken = false;
  stdout.on('error', () => (broken = true));
  let sample = await source.measured(signal);
  for (;;) {
    stdout.write(`${JSON.stringify(sample)}\n`);
    if (once) return EXIT.ok;
    await sleep(INTERVAL_MS, undefined, { signal });
    if (broken) return EXIT.brokenPipe;
    sample = await source.sample(signal);
  }
}

/** The picture on a terminal. */
class Live {
  readonly #call: TopCall;
  readonly #source: Source;
  readonly #quit = new AbortController();
  #sample: Sample | null = null;
  #scroll = 0;
  #problem: string | null = null;

  constructor(call: TopCall, source: Source) {
    this.#call = call;
    this.#source = source;
  }

  async run(): Promise<number> {
    const { interrupts, io } = this.#call;
    const signal = AbortSignal.any([interrupts.signal, this.#quit.signal]);
    // What is wrong from the start is an error in plain sight and not a picture.
    this.#sample = await this.#source.sample(signal);
    const screen = new Screen(
      io,
      (key) => {
        this.#press(key);
        this.#draw(screen);
      },
      () => this.#draw(screen),
    );
    try {
      await this.#loop(screen, signal);
    } finally {
      screen.leave();
    }
    return interrupts.exitStatus ?? EXIT.ok;
  }

  async #loop(screen: Screen, signal: AbortSignal): Promise<void> {
    let next = performance.now();
    try {
      for (;;) {
        this.#draw(screen);
        next = Math.max(next + INTERVAL_MS, performance.now());
        await sleep(next - performance.now(), undefined, { signal });
        await this.#look(signal);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /** Asks once more; a daemon that doesn't answer may be starting again. */
  async #look(signal: AbortSignal): Promise<void> {
    try {
      this.#sample = await this.#source.sample(signal);
      this.#problem = null;
    } catch (error) {
      if (signal.aborted) throw error;
      this.#problem = `no answer since ${this.#sample?.at.slice(11, 19) ?? ''}: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  #draw(screen: Screen): void {
    const sample = this.#sample;
    if (sample === null) return;
    const size = this.#call.io.terminalSize();
    this.#scroll = Math.max(0, Math.min(this.#scroll, sample.sandboxes.length - rowsShown(size.rows)));
    const view = { size, scroll: this.#scroll, problem: this.#problem, paint: this.#call.paint };
    screen.draw(frameLines(sample, view));
  }

  #press(key: Key): void {
    const page = rowsShown(this.#call.io.terminalSize().rows);
    if (key === 'quit') this.#quit.abort();
    else if (key === 'top') this.#scroll = 0;
    else if (key === 'bottom') this.#scroll = Number.MAX_SAFE_INTEGER;
    else this.#scroll += { up: -1, down: 1, 'page-up': -page, 'page-down': page }[key];
    this.#scroll = Math.max(0, this.#scroll);
  }
}
