import { Buffer } from 'node:buffer';
import type { Socket } from 'node:net';
import { BoxkiteError } from '@boxkite/protocol';
import { decodeError } from './answers.ts';
import { errorOfFault, runnerLost } from './faults.ts';
import { FrameError, FrameType, HEADER_BYTES, MAX_PAYLOAD_BYTES, PROTOCOL_VERSION } from './frames.ts';

/** What is handed on is there by then, or never. */
const DEADLINE_MS = 60_000;

/**
 * Sends the one frame that hands a fresh connection on, and waits for DONE. The socket then belongs to the caller, with
 * no listener left and nothing lost that came after DONE. On failure the socket is destroyed.
 */
export function handOver(socket: Socket, frame: Buffer): Promise<Socket> {
  return new Promise((resolve, reject) => {
    new Handover(socket, resolve, reject).start(frame);
  });
}

class Handover {
  readonly #socket: Socket;
  readonly #resolve: (socket: Socket) => void;
  readonly #reject: (error: BoxkiteError) => void;
  #deadline: NodeJS.Timeout | undefined;
  #have: Buffer = Buffer.alloc(0);

  constructor(socket: Socket, resolve: (socket: Socket) => void, reject: (error: BoxkiteError) => void) {
    this.#socket = socket;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  start(frame: Buffer): void {
    this.#socket.on('error', this.#failed);
    this.#socket.on('close', this.#closed);
    // Alone where the socket allows half-open connections.
    this.#socket.on('end', this.#closed);
    // Not `data`: taking that listener away would leave the socket paused for its next owner.
    this.#socket.on('readable', this.#read);
    this.#deadline = setTimeout(this.#late, DEADLINE_MS);
    this.#socket.write(frame);
  }

  readonly #failed = (error: Error): void => this.#refuse(runnerLost('the socket failed', error));

  readonly #closed = (): void => this.#refuse(runnerLost('it was closed'));

  readonly #late = (): void => this.#refuse(runnerLost('it handed nothing on in time'));

  readonly #read = (): void => {
    for (let chunk = nextChunk(this.#socket); chunk !== null; chunk = nextChunk(this.#socket)) {
      this.#have = this.#have.length === 0 ? chunk : Buffer.concat([this.#have, chunk]);
      if (this.#settled()) return;
    }
  };

  /** Whether what has arrived decides. */
  #settled(): boolean {
    try {
      if (!isAnswered(this.#have)) return false;
    } catch (error) {
      this.#refuse(error instanceof BoxkiteError ? error : runnerLost('the runner broke the protocol', error));
      return true;
    }
    this.#stop();
    if (this.#have.length > HEADER_BYTES) this.#socket.unshift(this.#have.subarray(HEADER_BYTES));
    this.#resolve(this.#socket);
    return true;
  }

  #refuse(error: BoxkiteError): void {
    this.#stop();
    this.#socket.on('error', ignoreLateError);
    this.#socket.destroy();
    this.#reject(error);
  }

  #stop(): void {
    clearTimeout(this.#deadline);
    this.#socket.off('readable', this.#read);
    this.#socket.off('error', this.#failed);
    this.#socket.off('close', this.#closed);
    this.#socket.off('end', this.#closed);
  }
}

function nextChunk(socket: Socket): Buffer | null {
  const chunk: unknown = socket.read();
  return Buffer.isBuffer(chunk) ? chunk : null;
}

/** Whether DONE is complete. Throws the runner's error, or `FrameError`. */
function isAnswered(have: Buffer): boolean {
  if (have.length < HEADER_BYTES) return false;
  const length = have.readUInt32LE(0);
  if (length > MAX_PAYLOAD_BYTES || have[4] !== PROTOCOL_VERSION) throw new FrameError('a broken header');
  if (have[5] === FrameType.done && length === 0) return true;
  if (have[5] !== FrameType.error) throw new FrameError('an answer of another type than its request asks for');
  if (have.length < HEADER_BYTES + length) return false;
  throw errorOfFault(decodeError(have.subarray(HEADER_BYTES, HEADER_BYTES + length)));
}

/** The caller has its error; a socket that is destroyed may still report one. */
function ignoreLateError(): void {
  // Its first failure was reported.
}
