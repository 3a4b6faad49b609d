/** The published Python package, unmodified: installed by its pinned hashes, and driven as a user drives it. */
import { type ChildProcessByStdio, type ExecFileSyncOptions, execFile, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

const ROOT = join(import.meta.dirname, '..', '..', '..');
const REQUIREMENTS = join(import.meta.dirname, '..', 'requirements.txt');
const CLIENT = join(import.meta.dirname, '..', 'client');
const INSTALL_MS = 180_000;
const CALL_MS = 150_000;

/**
 * Directory of the virtual environment with the package, made by the first caller. Its name says what it was made of, so
 * that another version is another directory.
 */
export function installedClient(): string {
  const python = execFileSync('python3', ['-c', 'import sys; print(sys.version, sys.executable)'], {
    encoding: 'utf8',
  });
  const digest = createHash('sha256').update(readFileSync(REQUIREMENTS)).update(python).digest('hex').slice(0, 16);
  const place = join(ROOT, 'build', 'compatibility', digest);
  if (existsSync(join(place, 'complete'))) return place;
  rmSync(place, { recursive: true, force: true });
  mkdirSync(place, { recursive: true });
  const quiet: ExecFileSyncOptions = { stdio: ['ignore', 'ignore', 'inherit'], timeout: INSTALL_MS };
  execFileSync('python3', ['-m', 'venv', place], quiet);
  const options = ['--quiet', '--disable-pip-version-check', '--no-input', '--no-deps', '--only-binary', ':all:'];
  execFileSync(
    join(place, 'bin', 'python'),
    ['-m', 'pip', 'install', ...options, '--require-hashes', '--requirement', REQUIREMENTS],
    quiet,
  );
  // Written elsewhere first: an interrupted installation is no installation.
  writeFileSync(join(place, 'incomplete'), python);
  renameSync(join(place, 'incomplete'), join(place, 'complete'));
  return place;
}

/** Where a client finds a sidecar. */
export interface Target {
  readonly url: string;
  readonly token: string;
}

/** What a client noted of one answer: its patience, and the fields that it read. */
export interface Observation {
  readonly timeout: Readonly<Record<string, number | null>>;
  readonly reads: readonly string[];
}

/** A call of the library. */
export interface Call {
  readonly kind: 'session' | 'manager' | 'tool';
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** An exception of the library. */
export class LibraryError extends Error {
  readonly type: string;

  constructor(type: string, message: string) {
    super(message);
    this.type = type;
  }
}

interface Reply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly type: string; readonly message: string };
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** A home of its own, and nothing of the caller's that a client would find. */
function environment(home: string, notes: string | undefined, more: Readonly<Record<string, string>>) {
  return {
    PATH: '/usr/bin:/bin',
    HOME: home,
    LC_ALL: 'C.UTF-8',
    NO_COLOR: '1',
    PYTHONDONTWRITEBYTECODE: '1',
    ...(notes === undefined ? {} : { PYTHONPATH: join(CLIENT, 'observe'), BOXKITE_OBSERVED: notes }),
    ...more,
  };
}

function readNotes(path: string): Observation[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Observation);
}

/** The library in compose mode, in a process of its own. */
export class Library implements AsyncDisposable {
  readonly #home = mkdtempSync(join(tmpdir(), 'boxkite-compatibility-'));
  readonly #notes: string | undefined;
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #waiting = new Map<number, Waiting>();
  #errors = '';
  #last = 0;

  /** `observe`: notes what the library reads of the answers; it is otherwise the same. */
  constructor(target: Target, options: { readonly observe?: boolean } = {}) {
    this.#notes = options.observe === true ? join(this.#home, 'notes') : undefined;
    const place = { RUNTIME_MODE: 'compose', SIDECAR_URL: target.url, SIDECAR_AUTH_TOKEN: target.token };
    this.#child = spawn(join(installedClient(), 'bin', 'python'), [join(CLIENT, 'driver.py')], {
      env: environment(this.#home, this.#notes, place),
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#errors += text;
    });
    // A driver that has died says so by its end.
    this.#child.stdin.on('error', () => undefined);
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#settle(JSON.parse(line) as Reply));
    this.#child.once('close', () => this.#fail(new Error(`the driver ended: ${this.#errors}`)));
  }

  /** Creates a session; resolves with what its tools say of themselves. */
  async createSession(sessionId: string, more: Readonly<Record<string, unknown>> = {}): Promise<readonly ToolFacts[]> {
    const args = { organization_id: ORGANIZATION, session_id: sessionId, ...more };
    return (await this.call({ kind: 'session', name: 'create_session', arguments: args })) as readonly ToolFacts[];
  }

  /** Calls a tool, which answers with a text, or an image. */
  async tool(name: string, args: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const value = await this.call({ kind: 'tool', name, arguments: args });
    return typeof value === 'string' ? value : JSON.stringify(value);
  }

  /** Calls a method of the manager. Rejects with `LibraryError` where that raises. */
  async manager<T = unknown>(name: string, args: Readonly<Record<string, unknown>> = {}): Promise<T> {
    return (await this.call({ kind: 'manager', name, arguments: args })) as T;
  }

  /** Calls the library. */
  call(call: Call): Promise<unknown> {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no answer to ${call.name} within ${CALL_MS} ms`)), CALL_MS);
      this.#waiting.set(id, {
        resolve: (value) => {
          clearTimeout(timer);
          resolve(value);
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      });
      this.#child.stdin.write(`${JSON.stringify({ id, ...call })}\n`);
    });
  }

  #settle({ id, value, error }: Reply): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(value);
    else waiting?.reject(new LibraryError(error.type, error.message));
  }

  #fail(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  /** Ends the library, and tells what it noted. */
  async end(): Promise<readonly Observation[]> {
    const closed = once(this.#child, 'close');
    this.#child.stdin.end();
    if (this.#child.exitCode === null && this.#child.signalCode === null) await closed;
    const notes = this.#notes === undefined ? [] : readNotes(this.#notes);
    rmSync(this.#home, { recursive: true, force: true });
    return notes;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }
}

/** What a tool says of itself. */
export interface ToolFacts {
  readonly name: string;
  readonly parameters: object;
  readonly multimodal: boolean;
}

/** The organization of all sessions here. */
export const ORGANIZATION = '11111111-1111-4111-8111-111111111111';

/** How a call of the command-line program ended. */
export interface CommandLineOutcome {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly notes: readonly Observation[];
}

/** Runs the package's command-line program in local mode: with the file that tells it where its sidecar is. */
export function commandLine(
  target: Target,
  words: readonly string[],
  options: { readonly observe?: boolean } = {},
): Promise<CommandLineOutcome> {
  const home = mkdtempSync(join(tmpdir(), 'boxkite-compatibility-'));
  const notes = join(home, 'notes');
  mkdirSync(join(home, '.boxxkite'));
  const file = `# local mode\nSIDECAR_AUTH_TOKEN=${target.token}\nSIDECAR_URL=${target.url}\n`;
  writeFileSync(join(home, '.boxxkite', 'local.env'), file, { mode: 0o600 });
  return new Promise((resolve) => {
    const env = { ...environment(home, options.observe === true ? notes : undefined, {}), COLUMNS: '200' };
    const program = join(installedClient(), 'bin', 'boxxkite');
    const child = execFile(program, words, { env, timeout: CALL_MS, cwd: home }, (_error, stdout, stderr) => {
      const outcome = { status: child.exitCode, stdout, stderr, notes: readNotes(notes) };
      rmSync(home, { recursive: true, force: true });
      resolve(outcome);
    });
    child.stdin?.end();
  });
}
