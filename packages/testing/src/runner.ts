/** A private runner for one test: either binary, from a copy of its own, so that each of its processes can be told from all others. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { connect, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { COMMAND_ENVIRONMENT } from '@boxkite/local';
import type { Effective, ExecHandle, ExecRequest } from '@boxkite/protocol';
import {
  type CloseOptions,
  FileAgentClient,
  type OpenRequest,
  RunnerClient,
  type SandboxId,
} from '@boxkite/runner-client';

/** How a private runner is started. */
export interface TestRunnerOptions {
  /** Layers to weaken; any value, even none, chooses the weakened twin. */
  readonly weaken?: readonly string[] | undefined;
  /** Seconds after which idle envelopes end. */
  readonly idleSeconds?: number | undefined;
  /** By the names of its command line without `--max-`. */
  readonly ceilings?: Readonly<Record<string, number>> | undefined;
  /** Blank envelopes made ahead. */
  readonly blanks?: number | undefined;
  /** Where the runner's own directory is made, beside those of other runners; default: nobody is beside it. */
  readonly beside?: string | undefined;
  /** `--root` values; default `host`. */
  readonly roots?: readonly string[] | undefined;
  /** `--state`: where disk workspaces are kept; a private directory that outlives the runner. */
  readonly state?: string | undefined;
  /** Whether whoever starts it ignores the ends of children, which what is executed inherits. */
  readonly ignoresChildren?: boolean | undefined;
}

/** What a test sandbox is to be; the defaults are the product's. */
export interface TestSpec extends Partial<Omit<OpenRequest, 'workspaceBytes' | 'memoryBytes'>> {
  readonly memoryMb?: number | undefined;
  readonly workspaceMb?: number | undefined;
}

/** A sandbox of a private runner. */
export interface TestSandbox extends AsyncDisposable {
  /** The runner's number of it. */
  readonly number: SandboxId;
  readonly effective: Effective;
  exec(request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle>;
  /** The one connection to its file agent, made at the first call. */
  agent(): Promise<FileAgentClient>;
  destroy(options?: CloseOptions): Promise<void>;
}

/** The runner looks for `newuidmap` in it; nothing else of the caller's environment reaches it. */
export const RUNNER_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url));
const TARGET = process.arch === 'arm64' ? 'aarch64-unknown-linux-gnu' : 'x86_64-unknown-linux-gnu';

/** Path of one of the native programs: of `BOXKITE_BIN`, else of the last build. */
export function nativeProgram(name: 'boxkite-runner' | 'boxkite-agent' | 'runner-weakened'): string {
  const configured = process.env['BOXKITE_BIN'];
  const places =
    configured === undefined
      ? [join(REPOSITORY, 'build/bin'), join(REPOSITORY, 'runner/target', TARGET, 'release')]
      : [configured];
  const found = places.map((place) => join(place, name)).find((path) => existsSync(path));
  if (found === undefined) throw new Error(`${name} is not built; run \`make build\``);
  return found;
}

/** Command line of a runner as tests start it, apart from the program itself. */
export function runnerArguments(directory: string, agent: string, options: TestRunnerOptions): string[] {
  const args = ['--dir', directory, '--agent', agent];
  for (const root of options.roots ?? ['host']) args.push('--root', root);
  if (options.blanks !== undefined) args.push('--blanks', String(options.blanks));
  if (options.idleSeconds !== undefined) args.push('--idle-seconds', String(options.idleSeconds));
  for (const [name, value] of Object.entries(options.ceilings ?? {})) args.push(`--max-${name}`, String(value));
  if (options.state !== undefined) args.push('--state', options.state);
  if (options.weaken !== undefined && options.weaken.length > 0) args.push('--weaken', options.weaken.join(','));
  return args;
}

/** A temporary directory with copies of the programs; `directory` in it is the runner's own. */
export interface Place {
  readonly base: string;
  readonly directory: string;
  readonly runner: string;
  readonly agent: string;
}

/** Makes a place for one runner; `beside` holds the directories of several. */
export function makePlace(weakened: boolean, beside?: string): Place {
  const base = mkdtempSync(join(tmpdir(), 'boxkite-test-'));
  const place = {
    base,
    directory: beside === undefined ? join(base, 'runner') : join(beside, basename(base)),
    runner: join(base, 'test-runner'),
    agent: join(base, 'test-agent'),
  };
  mkdirSync(place.directory, { mode: 0o700 });
  for (const [from, to] of [
    [nativeProgram(weakened ? 'runner-weakened' : 'boxkite-runner'), place.runner],
    [nativeProgram('boxkite-agent'), place.agent],
  ] as const) {
    copyFileSync(from, to);
    chmodSync(to, 0o755);
  }
  return place;
}

/** Opens a connection to a runner's socket. */
export async function connectTo(path: string): Promise<Socket> {
  const socket = connect({ path, allowHalfOpen: true });
  await once(socket, 'connect');
  return socket;
}

/** A running private runner. */
export class TestRunner implements AsyncDisposable {
  readonly place: Place;
  readonly client: RunnerClient;
  /** What the runner wrote to standard error. */
  readonly complaints: string[] = [];
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;

  constructor(place: Place, child: ChildProcess, owner: Socket) {
    this.place = place;
    this.#child = child;
    this.#exited = once(child, 'exit');
    child.stderr?.setEncoding('utf8').on('data', (text: string) => this.complaints.push(text));
    this.client = new RunnerClient(owner, {
      connect: () => connectTo(this.socketPath),
      environment: COMMAND_ENVIRONMENT,
    });
  }

  get pid(): number {
    const { pid } = this.#child;
    if (pid === undefined) throw new Error('the runner did not start');
    return pid;
  }

  get socketPath(): string {
    return join(this.place.directory, 'runner.sock');
  }

  /** Whether the runner's process has ended, and how. */
  get ended(): { readonly code: number | null; readonly signal: string | null } | undefined {
    const { exitCode: code, signalCode: signal } = this.#child;
    return code === null && signal === null ? undefined : { code, signal };
  }

  /** A raw connection to `runner.sock`. */
  connect(): Promise<Socket> {
    return connectTo(this.socketPath);
  }

  /** One more client, over `runner.sock`. */
  async anotherClient(): Promise<RunnerClient> {
    return new RunnerClient(await this.connect(), { connect: () => this.connect(), environment: COMMAND_ENVIRONMENT });
  }

  /** Makes a sandbox. */
  async create(spec: TestSpec = {}): Promise<TestSandbox> {
    const { memoryMb = 1024, workspaceMb = 1024, ...rest } = spec;
    const opened = await this.client.openSandbox({
      memoryBytes: memoryMb * 1_048_576,
      workspaceBytes: workspaceMb * 1_048_576,
      inodes: 262_144,
      pids: 256,
      cpuMillis: 0,
      root: 0,
      ...rest,
    });
    return new RunnerSandbox(this.client, opened.sandbox, opened.effective);
  }

  /** `kill -9` of the runner. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }

  /** Ends the runner as its owner's end does, and removes the place. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), 10_000);
    await this.#exited;
    clearTimeout(timer);
    rmSync(this.place.base, { recursive: true, force: true });
  }
}

/** Starts a private runner and waits until it serves. */
export async function startRunner(options: TestRunnerOptions = {}): Promise<TestRunner> {
  const place = makePlace(options.weaken !== undefined, options.beside);
  const argv = [place.runner, ...runnerArguments(place.directory, place.agent, options)];
  if (options.ignoresChildren === true) argv.unshift('env', '--ignore-signal=CHLD');
  const [program = '', ...rest] = argv;
  const child = spawn(program, rest, {
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    env: { PATH: RUNNER_PATH },
    cwd: '/',
  });
  const owner = child.stdio[3];
  if (!(owner instanceof Socket)) throw new Error("the owner's socket is missing");
  const runner = new TestRunner(place, child, owner);
  try {
    await runner.client.probe();
  } catch (error) {
    await runner.kill();
    rmSync(place.base, { recursive: true, force: true });
    throw new Error(`the runner did not serve: ${runner.complaints.join('')}`, { cause: error });
  }
  return runner;
}

class RunnerSandbox implements TestSandbox {
  readonly number: SandboxId;
  readonly effective: Effective;
  readonly #client: RunnerClient;
  #agent: Promise<FileAgentClient> | undefined;

  constructor(client: RunnerClient, number: SandboxId, effective: Effective) {
    this.#client = client;
    this.number = number;
    this.effective = effective;
  }

  exec(request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle> {
    return this.#client.exec(this.number, request, signal);
  }

  agent(): Promise<FileAgentClient> {
    this.#agent ??= this.#client.connectFiles(this.number, 'commands').then((socket) => new FileAgentClient(socket));
    return this.#agent;
  }

  async destroy(options: CloseOptions = {}): Promise<void> {
    (await this.#agent)?.close();
    await this.#client.closeSandbox(this.number, options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.destroy();
  }
}
