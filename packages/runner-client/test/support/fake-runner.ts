/** A scripted runner behind a real Unix socket: it speaks frames by the tests' own codec and keeps no sandbox. */
import { Buffer } from 'node:buffer';
import { mkdtemp, rm } from 'node:fs/promises';
import { createConnection, createServer, type OnReadOpts, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ReadMemory, type ReadSizes, RunnerClient } from '../../src/index.ts';
import {
  decodePayload,
  encodeFrame,
  type Fields,
  type LayoutName,
  layoutOfType,
  sampleEffective,
  sampleEnded,
} from './layouts.ts';

export interface Frame {
  readonly name: LayoutName;
  readonly request: number;
  readonly fields: Fields;
}

/** What its clients give every command. */
const FAKE_ENVIRONMENT = { PATH: '/usr/bin', GIVEN: 'by the caller' };

/** What a script does with each frame of each connection. */
export type Script = (peer: FakePeer, frame: Frame) => void;

/** The runner's side of one connection. */
export class FakePeer {
  readonly socket: Socket;
  readonly #script: Script;
  #have: Buffer = Buffer.alloc(0);
  /** After a hand-over: what came on the socket since. */
  raw: Buffer[] | null = null;
  onRaw: (() => void) | null = null;
  /** Resolves when the client has closed its side. */
  readonly ended: Promise<void>;
  readonly seen: Frame[] = [];

  constructor(socket: Socket, script: Script) {
    this.socket = socket;
    this.#script = script;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('error', () => socket.destroy());
    this.ended = new Promise((resolve) => {
      socket.on('end', () => {
        // The end of an input is answered.
        if (this.raw !== null) socket.write(Buffer.of(0));
        resolve();
      });
      socket.on('close', () => resolve());
    });
  }

  send(name: LayoutName, request: number, fields: Fields = {}): void {
    this.socket.write(encodeFrame(name, request, fields));
  }

  write(...frames: Buffer[]): void {
    this.socket.write(Buffer.concat(frames));
  }

  /** STARTED with the sample `Effective`. */
  started(request: number, exec: bigint | string): void {
    this.send('started', request, { exec: exec.toString(), ...sampleEffective });
  }

  end(exec: bigint | string, stdoutBytes = 0, stderrBytes = 0, more: Fields = {}): void {
    this.send('ended', 0, { ...sampleEnded(exec, stdoutBytes, stderrBytes), ...more });
  }

  /** Answers DONE; what follows on the socket is no frame any more. */
  handOver(request: number): void {
    this.raw = [];
    this.send('done', request);
  }

  #receive(chunk: Buffer): void {
    if (this.raw !== null) {
      this.raw.push(chunk);
      this.onRaw?.();
      return;
    }
    this.#have = Buffer.concat([this.#have, chunk]);
    while (this.#have.length >= 12) {
      const end = 12 + this.#have.readUInt32LE(0);
      if (this.#have.length < end) return;
      const [name] = layoutOfType(this.#have.readUInt8(5));
      const frame = {
        name,
        request: this.#have.readUInt32LE(8),
        fields: decodePayload(name, this.#have.subarray(12, end)),
      };
      this.#have = this.#have.subarray(end);
      this.seen.push(frame);
      this.#script(this, frame);
    }
  }
}

/** A runner that does what its script says; dispose it at the end of the test. */
export class FakeRunner implements AsyncDisposable {
  readonly peers: FakePeer[] = [];
  readonly #server: Server;
  readonly #directory: string;
  readonly #clients: RunnerClient[] = [];

  private constructor(server: Server, directory: string) {
    this.#server = server;
    this.#directory = directory;
  }

  static async start(script: Script): Promise<FakeRunner> {
    const directory = await mkdtemp(join(tmpdir(), 'boxkite-fake-runner-'));
    const server = createServer({ allowHalfOpen: true });
    const runner = new FakeRunner(server, directory);
    server.on('connection', (socket) => runner.peers.push(new FakePeer(socket, script)));
    await new Promise<void>((resolve) => {
      server.listen(runner.path, resolve);
    });
    return runner;
  }

  get path(): string {
    return join(this.#directory, 'runner.sock');
  }

  readonly connect = (onread?: OnReadOpts): Promise<Socket> =>
    new Promise((resolve, reject) => {
      const socket = createConnection({ path: this.path, ...(onread === undefined ? {} : { onread }) });
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(socket);
      });
    });

  /** With sizes: one that reads into memory of these. */
  async client(sizes?: ReadSizes, stdinBytes?: number): Promise<RunnerClient> {
    const memory = sizes === undefined ? undefined : new ReadMemory(sizes);
    const socket = await this.connect(memory?.options);
    const options = { connect: () => this.connect(), environment: FAKE_ENVIRONMENT, memory, stdinBytes };
    const client = new RunnerClient(socket, options);
    this.#clients.push(client);
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) await client.close();
    for (const peer of this.peers) peer.socket.destroy();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    await rm(this.#directory, { recursive: true });
  }
}

/** Answers everything: sandboxes open and close, each exec ends at once with no output. */
export function obliging(): Script {
  let exec = 0n;
  return (peer, { name, request, fields }) => {
    if (name === 'open_sandbox') peer.send('opened', request, { sandbox: '1', ...sampleEffective });
    else if (name === 'exec') {
      exec += 1n;
      peer.started(request, exec);
      peer.end(exec);
    } else if (name === 'close_sandbox' || name === 'signal' || name === 'resize') peer.send('done', request);
    else if (name === 'list')
      peer.send('listing', request, { sandbox_count: '0', exec_count: '0', workspace_count: '0' });
    else if (name === 'probe') peer.send('probed', request, { mode: '1', layer_count: '0' });
    else if (name === 'attach' && fields['what'] === '1') peer.handOver(request);
    else if (name === 'file') peer.handOver(request);
  };
}
