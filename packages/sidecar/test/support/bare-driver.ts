/** The interpreter's driver under the machine's own Python, without a sandbox. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import type { Duplex, Readable } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
import { DRIVER } from '../../src/interpreter/driver.ts';
import {
  type CodeReply,
  type HelloReply,
  Kind,
  type MessageKind,
  NONCE_BYTES,
  ReplyReader,
  readCodeReply,
  readHelloReply,
  requestMessage,
} from '../../src/interpreter/messages.ts';
import { OutputReader } from '../../src/interpreter/output.ts';

/** What one call gave. */
export interface BareReply extends CodeReply {
  readonly output: string;
}

/** One driver. `call` rejects when it ends instead of answering. */
export class BareDriver implements AsyncDisposable {
  readonly replies = new ReplyReader();
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  readonly #channel: Duplex;
  readonly #output = new OutputReader();
  #onChange: () => void = () => undefined;
  #reply: Buffer | null = null;

  constructor(cap = 262_144, program = '/usr/bin/python3') {
    // The shell gives standard error the very pipe of standard output.
    const line = `exec ${program} -I -u -B -X utf8 -c "$0" ${cap} 8388608 0 2>&1`;
    this.child = spawn('/bin/sh', ['-c', line, DRIVER], {
      stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
      detached: true,
    });
    const [output, channel] = [this.child.stdio[1] as Readable, this.child.stdio[3] as Duplex];
    this.#channel = channel;
    this.ended = new Promise((resolve) => {
      this.child.once('close', (code) => {
        resolve(code);
        this.#onChange();
      });
    });
    output.on('data', (data: Buffer) => this.#output.push(data));
    channel.on('data', (data: Buffer) => {
      this.#reply ??= this.replies.push(data);
      this.#onChange();
    });
    channel.on('error', () => undefined);
  }

  async call(code: string): Promise<BareReply> {
    const reply = readCodeReply(await this.#exchange(Kind.code, code));
    // It was written before the reply, by another way.
    await setTimeout(10);
    return { ...reply, output: this.#output.end().bytes.toString() };
  }

  async hello(): Promise<HelloReply> {
    return readHelloReply(await this.#exchange(Kind.hello, ''));
  }

  /** Whatever bytes, by the requests' way. */
  raw(data: Uint8Array): void {
    this.#channel.write(data);
  }

  async #exchange(kind: MessageKind, code: string): Promise<Buffer> {
    const nonce = randomBytes(NONCE_BYTES);
    this.#reply = null;
    this.replies.expect(nonce, 64 * 1024 * 1024);
    this.#output.begin(64 * 1024 * 1024);
    const payload = new Promise<Buffer>((resolve, reject) => {
      this.#onChange = () => {
        if (this.#reply !== null) resolve(this.#reply);
        else if (this.child.exitCode !== null || this.child.signalCode !== null) {
          reject(new Error(`ended: ${this.child.exitCode ?? this.child.signalCode}`));
        }
      };
    });
    this.#channel.write(requestMessage(nonce, kind, code));
    return payload;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      // What it has started is in its group.
      process.kill(-(this.child.pid ?? 0), 'SIGKILL');
    } catch {
      // It has ended.
    }
    this.#channel.destroy();
    await this.ended;
  }
}
