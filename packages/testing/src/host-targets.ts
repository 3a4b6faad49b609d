/** Things on the host that no sandbox may reach: listeners, a canary file, a process with a marked environment. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';

/** What an attack may try to reach, and how often it was reached. */
export interface HostTargets extends AsyncDisposable {
  /** A file of mode 0600 of the caller, whose content is `canary`. */
  readonly file: string;
  readonly canary: string;
  /** Port of a TCP listener on every address of the host, and of a UDP one. */
  readonly tcpPort: number;
  readonly udpPort: number;
  /** Addresses of the host other than loopback. */
  readonly addresses: readonly string[];
  /** `@name` of an abstract Unix socket, and the path of one in a directory that everybody may enter. */
  readonly abstract: string;
  readonly unixPath: string;
  /** A process of the caller that has `marker` in its environment. */
  readonly pid: number;
  readonly marker: string;
  /** Connections and datagrams that came from anywhere. */
  readonly contacts: () => number;
}

async function listen(server: Server, where: Parameters<Server['listen']>[0]): Promise<void> {
  server.listen(where);
  await once(server, 'listening');
}

class Targets implements HostTargets {
  readonly canary = randomBytes(12).toString('hex');
  readonly marker = `boxkite-marker-${randomBytes(8).toString('hex')}`;
  readonly #directory = mkdtempSync(join(tmpdir(), 'boxkite-targets-'));
  readonly file = join(this.#directory, 'canary');
  readonly unixPath = join(this.#directory, 'listener.sock');
  readonly abstract = `@boxkite-test-${randomBytes(8).toString('hex')}`;
  readonly addresses = Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .filter((entry) => !entry.internal && !entry.address.startsWith('fe80'))
    .map((entry) => entry.address);
  readonly #servers: Server[] = [];
  #datagrams: DatagramSocket | undefined;
  #child: ChildProcess | undefined;
  #count = 0;
  tcpPort = 0;
  udpPort = 0;

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  readonly contacts = (): number => this.#count;

  async start(): Promise<this> {
    writeFileSync(this.file, this.canary, { mode: 0o600 });
    chmodSync(this.#directory, 0o755);
    for (const where of [{ port: 0, host: '::' }, { path: this.unixPath }, { path: `\0${this.abstract.slice(1)}` }]) {
      const server = createServer((socket) => {
        this.#count += 1;
        socket.destroy();
      });
      this.#servers.push(server);
      await listen(server, where);
    }
    chmodSync(this.unixPath, 0o777);
    const address = this.#servers[0]?.address();
    if (address === null || typeof address !== 'object') throw new Error('the listener has no port');
    this.tcpPort = address.port;
    const datagrams = createSocket({ type: 'udp6' });
    this.#datagrams = datagrams;
    datagrams.on('message', () => {
      this.#count += 1;
    });
    datagrams.bind(0, '::');
    await once(datagrams, 'listening');
    this.udpPort = datagrams.address().port;
    this.#child = spawn('sleep', ['3600'], { env: { PATH: '/usr/bin:/bin', MARKER: this.marker }, stdio: 'ignore' });
    await once(this.#child, 'spawn');
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child?.kill('SIGKILL');
    this.#datagrams?.close();
    await Promise.all(this.#servers.map((server) => new Promise((resolve) => server.close(resolve))));
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** Puts the targets up. */
export function startTargets(): Promise<HostTargets> {
  return new Targets().start();
}
