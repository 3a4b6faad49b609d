/** A daemon of the runner, supervise and a small Node program, as `boxkite serve` starts one. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  eventually,
  lane,
  leftovers,
  makePlace,
  type Place,
  processes,
  processesOf,
  RUNNER_PATH,
  runnerArguments,
} from '@boxkite/testing';

/** What the small program says of itself. */
export interface Description {
  readonly pid: number;
  readonly parent: number;
  readonly uid: number;
  readonly gid: number;
  readonly groups: readonly number[];
  readonly umask: number;
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly status: string;
  readonly limits: string;
  readonly descriptors: readonly string[];
  readonly arguments: readonly string[];
}

/** How a daemon is started. */
export interface DaemonOptions {
  /** More of supervise's command line, before the instance. */
  readonly listen?: readonly string[];
  /** Leads a process group, as a command of an interactive shell does. */
  readonly leadsGroup?: boolean;
  /** Is started as `nohup` starts programs. */
  readonly ignoresHangup?: boolean;
  /** Where it is; default: a new place. */
  readonly house?: House;
}

/** The directories of a daemon, which several may have after each other. */
export interface House {
  readonly place: Place;
  readonly state: string;
  readonly clients: string;
  readonly home: string;
  /** Of root: what its unprivileged processes become. */
  readonly serviceId: number | undefined;
  readonly node: string;
  readonly script: string;
}

const SCRIPT = fileURLToPath(new URL('./supervised-node.ts', import.meta.url));

/** Makes the directories and installs the programs. As root, the service's user can read none of them but its home. */
export function makeHouse(): House {
  const place = makePlace(false);
  const { base } = place;
  const serviceId =
    lane === 'root' ? Number(execFileSync(place.runner, ['service-id'], { encoding: 'utf8' }).trim()) : undefined;
  chmodSync(base, 0o711);
  const house = {
    place,
    state: join(base, 'state'),
    clients: join(base, 'clients'),
    home: join(base, 'home'),
    serviceId,
    node: join(base, 'test-node'),
    script: join(base, 'script.mts'),
  };
  mkdirSync(house.state, { mode: 0o700 });
  mkdirSync(house.clients, { mode: 0o711 });
  mkdirSync(house.home, { mode: 0o700 });
  copyFileSync(SCRIPT, house.script);
  chmodSync(house.script, 0o644);
  copyFileSync(process.execPath, house.node);
  chmodSync(house.node, 0o711);
  if (serviceId !== undefined) chownSync(house.home, serviceId, serviceId);
  return house;
}

/** Removes all of it. */
export function removeHouse(house: House): void {
  rmSync(house.place.base, { recursive: true, force: true });
}

/** What of a house is not to be there when its daemon has ended: processes, and everything but what was made with it. */
export function left(house: House): readonly string[] {
  const { base } = house.place;
  const kept = [
    house.state,
    join(house.state, 'lock'),
    join(house.state, 'workspaces'),
    house.clients,
    house.home,
    house.node,
    house.script,
  ];
  const expected = new Set([...kept.map((path) => `file ${path}`), `file ${join(base, 'script.mts')}`]);
  return leftovers(base, []).filter((entry) => !expected.has(entry) && !entry.startsWith(`file ${house.home}/`));
}

/** Sends one line to the small program and reads its answer. */
export function call(address: string | { port: number }, request: Record<string, unknown>): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = typeof address === 'string' ? connect(address) : connect(address.port, '127.0.0.1');
    socket.setEncoding('utf8').on('data', (chunk) => {
      text += String(chunk);
    });
    socket.on('error', reject);
    socket.on('close', () => {
      if (text === '') reject(new Error('the connection ended without an answer'));
      else resolve(JSON.parse(text));
    });
    socket.write(`${JSON.stringify(request)}\n`);
  });
}

/** Those of these processes that run, with their names. */
export function alive(pids: readonly number[]): readonly string[] {
  const wanted = new Set(pids);
  return processes()
    .filter((entry) => wanted.has(entry.pid) && entry.state !== 'Z')
    .map((entry) => `${entry.pid} ${entry.name} ${entry.state}`);
}

/** A running daemon. */
export class Daemon implements AsyncDisposable {
  readonly house: House;
  readonly child: ChildProcess;
  /** What it wrote to standard error. */
  complaints = '';
  readonly exited: Promise<unknown>;

  constructor(house: House, child: ChildProcess) {
    this.house = house;
    this.child = child;
    this.exited = once(child, 'exit');
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.complaints += text;
    });
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  get socket(): string {
    return join(this.house.home, 'served.sock');
  }

  get clientSocket(): string {
    return join(this.house.clients, 'clients.sock');
  }

  describe(): Promise<Description> {
    return call(this.socket, { do: 'describe' }) as Promise<Description>;
  }

  /** The answers of supervise to a frame, as [type in hex, payload]. */
  async ask(type: number, payload: Uint8Array = new Uint8Array()): Promise<readonly (readonly [string, Buffer])[]> {
    const request = { do: 'ask', type: String(type), payload: Buffer.from(payload).toString('base64') };
    const frames = (await call(this.socket, request)) as [string, string][];
    return frames.map(([kind, text]) => [kind, Buffer.from(text, 'base64')]);
  }

  /** When Node was started, in milliseconds of the clock. */
  starts(): readonly number[] {
    const file = join(this.house.home, 'starts');
    const lines = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
    return lines.map((line) => Number(line.split(' ')[0]));
  }

  /** Processes of it, the runner itself left out. */
  members(): readonly number[] {
    return processesOf(this.pid, this.house.place.base).map((entry) => entry.pid);
  }

  /** Waits for the end of all of it; the runner's exit status or signal. */
  async end(): Promise<number | string | null> {
    await this.exited;
    await eventually(
      () => left(this.house).length === 0,
      2000,
      () => left(this.house).join('\n'),
    );
    return this.child.exitCode ?? this.child.signalCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const members = this.members();
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill('SIGKILL');
    await this.exited;
    await eventually(
      () => alive(members).length === 0,
      5000,
      () => alive(members).join('\n'),
    );
    removeHouse(this.house);
  }
}

/** Starts a daemon; it may not serve yet, or ever. */
export function spawnDaemon(options: DaemonOptions = {}): Daemon {
  const house = options.house ?? makeHouse();
  const { place, home } = house;
  mkdirSync(place.directory, { recursive: true, mode: 0o700 });
  const args = [
    ...runnerArguments(place.directory, place.agent, { blanks: 0 }),
    ...['--state', house.state, '--client-socket', join(house.clients, 'clients.sock')],
    ...(house.serviceId === undefined ? [] : ['--service-uid', String(house.serviceId)]),
    ...['--', '--socket', join(home, 'served.sock'), ...(options.listen ?? []), '--instance', 'c0ffee', '--home', home],
    ...['--', house.node, '--disable-warning=ExperimentalWarning', house.script, 'an argument'],
  ];
  const command = [place.runner, ...args];
  if (options.ignoresHangup === true) command.unshift('/bin/sh', '-c', 'trap "" HUP; exec "$@"', 'sh');
  const [program = '', ...rest] = command;
  const child = spawn(program, rest, {
    detached: options.leadsGroup === true,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: RUNNER_PATH, SECRET_OF_THE_CALLER: 'x' },
    cwd: '/',
  });
  return new Daemon(house, child);
}

/** Starts a daemon and waits until Node has answered. */
export async function startDaemon(options: DaemonOptions = {}): Promise<Daemon> {
  const daemon = spawnDaemon(options);
  const answers = (): Promise<boolean> =>
    daemon.describe().then(
      () => true,
      () => false,
    );
  const served = eventually(answers, 10_000, () => `the daemon does not serve: ${daemon.complaints}`);
  try {
    await Promise.race([served, daemon.exited]);
    if (daemon.child.exitCode !== null) throw new Error(`the daemon has ended: ${daemon.complaints}`);
    return daemon;
  } catch (error) {
    await daemon[Symbol.asyncDispose]();
    throw error;
  }
}
