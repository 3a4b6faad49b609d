/** `boxkite serve` or `boxkite sidecar` for one test: started as an operator starts it, ended in every way. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PlaceOptions, ServicePlaces } from '@boxkite/local/serve';
import { processes } from './host-resources.ts';
import { within } from './patience.ts';
import { sleep } from './program.ts';

const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url));
const START_DEADLINE_MS = within(30_000);
const END_DEADLINE_MS = 40_000;

/** The words that run `boxkite` from the sources. */
export function boxkiteCommand(): readonly [string, ...string[]] {
  return commandOf(join(REPOSITORY, 'packages/cli/src/main.ts'));
}

function commandOf(script: string): readonly [string, ...string[]] {
  return [process.execPath, '--disable-warning=ExperimentalWarning', script];
}

let bundle: string | null = null;

/**
 * A bundle of the present sources: that of `BOXKITE_TEST_BUNDLE`, or one made once in this process. Root's daemons are
 * started from one, and would each make it.
 */
function ownBundle(): string {
  bundle ??= process.env['BOXKITE_TEST_BUNDLE'] ?? null;
  if (bundle !== null) return bundle;
  // A test runner ends its processes without asking them, so that each removes what those before it have left.
  for (const name of readdirSync(tmpdir())) {
    const owner = /^boxkite-bundle-(\d+)-/.exec(name)?.[1];
    if (owner === undefined || existsSync(`/proc/${owner}`)) continue;
    const path = join(tmpdir(), name);
    if (lstatSync(path, { throwIfNoEntry: false })?.uid === process.geteuid?.())
      rmSync(path, { recursive: true, force: true });
  }
  bundle = join(mkdtempSync(join(tmpdir(), `boxkite-bundle-${process.pid}-`)), 'dist');
  execFileSync(process.execPath, [join(REPOSITORY, 'tools/bundle/main.ts'), bundle], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return bundle;
}

function serveCommand(bundled: boolean | undefined): readonly [string, ...string[]] {
  if (bundled === true) return commandOf(join(REPOSITORY, 'dist/boxkite.mjs'));
  return commandOf(join(ownBundle(), 'boxkite.mjs'));
}

/** A directory for the data of a service, which the service user of root's can pass through. */
export function makeDataDirectory(): string {
  const base = mkdtempSync(join(tmpdir(), 'boxkite-daemon-'));
  chmodSync(base, 0o755);
  const data = join(base, 'data');
  mkdirSync(data);
  return data;
}

/** What decides the places of the user that runs the tests. */
export function ownPlaces(data: string): PlaceOptions {
  return {
    uid: process.geteuid?.() ?? 0,
    home: homedir(),
    stateHome: process.env['XDG_STATE_HOME'],
    runtimeDirectory: process.env['XDG_RUNTIME_DIR'],
    data,
  };
}

/** Starts `boxkite` with these words, and returns at once. */
export function spawnService(
  words: readonly string[],
  bundled: boolean | undefined,
  env: Readonly<Record<string, string | undefined>> = process.env,
): ChildProcess {
  // Ends in order where the tests' own process ends without having stopped it.
  return spawn('setpriv', ['--pdeathsig', 'TERM', ...serveCommand(bundled), ...words], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...env },
    // A group of its own: what signals the tests' terminal sends are not for it.
    detached: true,
  });
}

/** A started process tree: the runner, `supervise` below it, Node below that. */
export abstract class TestService<P extends ServicePlaces = ServicePlaces> implements AsyncDisposable {
  readonly places: P;
  /** What it wrote to standard error. */
  readonly log: string[] = [];
  readonly #child: ChildProcess;
  readonly #keepsData: boolean;
  readonly #exited: Promise<unknown>;

  constructor(child: ChildProcess, places: P, keepsData: boolean) {
    this.#child = child;
    this.places = places;
    this.#keepsData = keepsData;
    this.#exited = once(child, 'exit');
    child.stderr?.setEncoding('utf8').on('data', (text: string) => this.log.push(text));
  }

  /** Whether it answers `GET /health` well. Errors: of the connection. */
  protected abstract answers(signal: AbortSignal): Promise<boolean>;

  /** Process id of the runner, which is that of the command. */
  get pid(): number {
    const { pid } = this.#child;
    if (pid === undefined) throw new Error('it did not start');
    return pid;
  }

  /** How it ended, once it has. */
  get ended(): { readonly code: number | null; readonly signal: string | null } | undefined {
    const { exitCode: code, signalCode: signal } = this.#child;
    return code === null && signal === null ? undefined : { code, signal };
  }

  /** Process id of `supervise`. */
  supervisePid(): number {
    const found = processes().find(({ pid, parent }) => parent === this.pid && isSupervise(pid));
    if (found === undefined) throw new Error(`no supervise runs: ${this.log.join('')}`);
    return found.pid;
  }

  /** Process id of Node; it changes when it is killed. */
  nodePid(): number {
    const supervise = this.supervisePid();
    const found = processes().find(({ parent, state }) => parent === supervise && state !== 'Z');
    if (found === undefined) throw new Error('no Node runs');
    return found.pid;
  }

  /** Resolves when it answers. */
  async serving(): Promise<void> {
    const end = Date.now() + START_DEADLINE_MS;
    while (this.ended === undefined && Date.now() < end) {
      try {
        if (await this.answers(AbortSignal.timeout(5000))) return;
      } catch {
        // Nobody listens yet.
      }
      await sleep(5);
    }
    throw new Error(`${this.places.kind} does not serve (${JSON.stringify(this.ended)}): ${this.log.join('')}`);
  }

  /** kill -9 of Node; resolves when that process is gone. */
  async killNode(): Promise<void> {
    const pid = this.nodePid();
    process.kill(pid, 'SIGKILL');
    while (processes().some((entry) => entry.pid === pid && entry.state !== 'Z')) await sleep(1);
  }

  /** kill -9 of the runner; resolves when that process is gone. */
  async killRunner(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }

  /** Asks it to end and resolves with how it did. */
  async stop(
    signal: NodeJS.Signals = 'SIGTERM',
  ): Promise<{ readonly code: number | null; readonly signal: string | null }> {
    if (this.ended === undefined) this.#child.kill(signal);
    return await this.whenEnded();
  }

  /** Resolves with how it ended; kills it where it does not. */
  async whenEnded(): Promise<{ readonly code: number | null; readonly signal: string | null }> {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), END_DEADLINE_MS);
    if (this.ended === undefined) await this.#exited;
    clearTimeout(timer);
    return this.ended ?? { code: null, signal: null };
  }

  /** Stops it and removes what it leaves on purpose: its data, and the directory of its runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    if (!this.#keepsData) removeDaemon(this.places);
  }
}

/** Removes the data of a service that has ended, and the directory of its runs. */
export function removeDaemon(places: ServicePlaces): void {
  rmSync(places.runtime, { recursive: true, force: true });
  rmSync(dirname(places.data), { recursive: true, force: true });
}

function isSupervise(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[1] === 'supervise';
  } catch {
    // It has ended.
    return false;
  }
}
