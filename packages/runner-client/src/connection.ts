import { Buffer } from 'node:buffer';
import type { Socket } from 'node:net';
import type { BoxkiteError } from '@boxkite/protocol';
import { decodeEnded, decodeError, decodeGap, type Ended, type Gap, type RunnerFault } from './answers.ts';
import { EffectiveReader } from './effective.ts';
import { errorOfFault, runnerLost } from './faults.ts';
import { FrameError, FrameReader, type FrameSink, FrameType } from './frames.ts';
import { COMMIT_REQUEST, encodeCommit } from './operations.ts';
import { keep, type ReadMemory } from './read-memory.ts';

/** A call that waits for its answer. Exactly one of the two is called, once. */
export interface PendingCall {
  /** Frame type of the answer. */
  readonly expects: number;
  /** `payload` is only valid during the call. May throw `FrameError`. */
  answer(payload: Buffer): void;
  fail(error: BoxkiteError): void;
}

/** What receives the events of one exec, in order; after `ended` or `fail` nothing more comes. */
export interface EventConsumer {
  /** `data` may be kept; whoever knows when he needs it no more may say so by `letGo`, once. */
  output(stream: 1 | 2, offset: number, data: Buffer): void;
  gap(gap: Gap): void;
  ended(ended: Ended): void;
  fail(error: BoxkiteError): void;
  /** Sends what it has to commit by now. */
  commitNow(): void;
}

/** Consumed bytes wait at most so long for their commit where volume does not send it earlier. */
const IDLE_COMMIT_MS = 25;

/** One multiplexed connection: requests with their answers, and events of execs to their consumers. */
export class Connection implements FrameSink {
  readonly #socket: Socket;
  readonly #reader = new FrameReader(this);
  readonly #pending = new Map<number, PendingCall>();
  readonly #consumers = new Map<bigint, EventConsumer>();
  /** Consumers that have something to commit, for the one timer of all. */
  readonly #dirty = new Set<EventConsumer>();
  readonly #lost = Promise.withResolvers<void>();
  /** Commits wait for the next frame or the end of this turn, so that an exec costs one write. */
  #commits: Buffer[] = [];
  #idleTimer = false;
  #nextRequest = 1;
  #failure: BoxkiteError | null = null;
  /** Decodes `Effective` of the answers of this connection. */
  readonly effective = new EffectiveReader();

  /** `memory` is what the socket is read into, where it was made so. */
  constructor(socket: Socket, memory?: ReadMemory) {
    this.#socket = socket;
    const receive = (chunk: Buffer): void => this.#receive(chunk);
    if (memory === undefined) socket.on('data', receive);
    else memory.deliverTo(receive);
    socket.on('error', (error) => this.#fail('the socket failed', error));
    socket.on('end', () => this.#fail('it was closed by the runner'));
    socket.on('close', () => this.#fail('it was closed'));
    if (socket.destroyed) this.#fail('it was closed');
  }

  /** Resolves when the connection is gone. */
  get lost(): Promise<void> {
    return this.#lost.promise;
  }

  /** Sends a request; `encode` gets its number. The call fails at once where the connection is gone. */
  call(encode: (request: number) => Buffer, call: PendingCall): void {
    if (this.#failure !== null) {
      call.fail(this.#failure);
      return;
    }
    const request = this.#freeRequest();
    const frame = encode(request);
    this.#pending.set(request, call);
    this.#write(frame);
  }

  /** A call whose answer is decoded into a value. */
  request<T>(encode: (request: number) => Buffer, expects: number, decode: (payload: Buffer) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.call(encode, { expects, answer: (payload) => resolve(decode(payload)), fail: reject });
    });
  }

  /** Routes the events of `exec` to `consumer` from now on. */
  consume(exec: bigint, consumer: EventConsumer): void {
    if (this.#consumers.has(exec)) throw new FrameError('the runner started an exec twice');
    this.#consumers.set(exec, consumer);
  }

  /** Whether some handle of this connection consumes `exec`. */
  consumes(exec: bigint): boolean {
    return this.#consumers.has(exec);
  }

  /** Sends a commit with the next frame, or at the end of this turn. */
  commit(exec: bigint, stdout: number, stderr: number, end: boolean): void {
    if (this.#failure !== null) return;
    if (this.#commits.push(encodeCommit(exec, stdout, stderr, end)) === 1) setImmediate(() => this.#flush());
  }

  /** `consumer.commitNow` is called soon. */
  commitSoon(consumer: EventConsumer): void {
    if (this.#failure !== null) return;
    this.#dirty.add(consumer);
    if (this.#idleTimer) return;
    this.#idleTimer = true;
    setTimeout(() => {
      this.#idleTimer = false;
      for (const each of this.#dirty) each.commitNow();
      this.#dirty.clear();
    }, IDLE_COMMIT_MS).unref();
  }

  /** Ends the connection and fails all that is in flight. Resolves when the socket is closed. */
  close(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      if (this.#socket.closed) resolve();
      else this.#socket.once('close', () => resolve());
    });
    this.#flush();
    this.#fail('its owner closed it');
    return closed;
  }

  frame(type: number, request: number, payload: Buffer): void {
    if (type === FrameType.ended || type === FrameType.gap) {
      if (request !== 0) throw new FrameError('an event carries a request');
      if (type === FrameType.gap) {
        const gap = decodeGap(payload);
        this.#consumer(gap.exec).gap(gap);
      } else {
        const ended = decodeEnded(payload);
        const consumer = this.#consumer(ended.exec);
        this.#consumers.delete(ended.exec);
        this.#dirty.delete(consumer);
        consumer.ended(ended);
      }
      return;
    }
    this.#answer(type, request, payload);
  }

  output(exec: bigint, stream: 1 | 2, offset: number, data: Buffer): void {
    this.#consumer(exec).output(stream, offset, keep(data));
  }

  #answer(type: number, request: number, payload: Buffer): void {
    const call = this.#pending.get(request);
    if (call === undefined) {
      if (type === FrameType.error)
        throw new FrameError(`the runner refused the connection: ${describe(decodeError(payload))}`);
      throw new FrameError('an answer to no request');
    }
    if (type === FrameType.error) {
      const fault = decodeError(payload);
      this.#pending.delete(request);
      call.fail(errorOfFault(fault));
      return;
    }
    if (type !== call.expects) throw new FrameError('an answer of another type than its request asks for');
    // It stays pending until it is decoded, so that a broken payload fails it like all others.
    call.answer(payload);
    this.#pending.delete(request);
  }

  #consumer(exec: bigint): EventConsumer {
    const consumer = this.#consumers.get(exec);
    if (consumer === undefined) throw new FrameError('an event of an exec that is not consumed here');
    return consumer;
  }

  #receive(chunk: Buffer): void {
    if (this.#failure !== null) return;
    try {
      this.#reader.push(chunk);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.#fail(`the runner broke the protocol (${error.message})`, error);
    }
  }

  #freeRequest(): number {
    let request = this.#nextRequest;
    while (this.#pending.has(request)) request = request + 1 >= COMMIT_REQUEST ? 1 : request + 1;
    this.#nextRequest = request + 1 >= COMMIT_REQUEST ? 1 : request + 1;
    return request;
  }

  #write(frame: Buffer): void {
    if (this.#commits.length === 0) {
      this.#socket.write(frame);
      return;
    }
    const parts = this.#commits;
    this.#commits = [];
    parts.push(frame);
    this.#socket.write(Buffer.concat(parts));
  }

  #flush(): void {
    if (this.#commits.length === 0 || this.#failure !== null) return;
    const parts = this.#commits;
    this.#commits = [];
    this.#socket.write(parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts));
  }

  /** Fails everything in flight, once. */
  #fail(reason: string, cause?: unknown): void {
    if (this.#failure !== null) return;
    const failure = runnerLost(reason, cause);
    this.#failure = failure;
    const calls = [...this.#pending.values()];
    const consumers = [...this.#consumers.values()];
    this.#pending.clear();
    this.#consumers.clear();
    this.#dirty.clear();
    this.#commits = [];
    // What was handed to the kernel still arrives; a peer that does not read is not waited for.
    this.#socket.destroy();
    for (const call of calls) call.fail(failure);
    for (const consumer of consumers) consumer.fail(failure);
    this.#lost.resolve();
  }
}

function describe(fault: RunnerFault): string {
  return errorOfFault(fault).message;
}
