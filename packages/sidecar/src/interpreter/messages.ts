/**
 * Messages between a session and its interpreter's driver, by the interpreter's channel. To the driver: nonce 16 bytes ·
 * kind u8 (1 hello, 2 code) · 3 × 0 · length u32 · the code. From it, in pieces: nonce · kind u8 · last u8 · place u16 ·
 * length u32 (at most 16 KiB less the head) · fields. Anything may stand between pieces: only the nonce makes one.
 */

import { randomBytes } from 'node:crypto';

/** Of a call; nobody but the driver is told it. */
export const NONCE_BYTES = 16;
/** What a request is. */
export const Kind = { hello: 1, code: 2 } as const;

const HEAD_BYTES = 24;
const MOST_PIECE = 16_384 - HEAD_BYTES;

/** See `Kind`. */
export type MessageKind = (typeof Kind)[keyof typeof Kind];

/** The system is asked for those of so many calls at once. */
const NONCES = 64;
let random = Buffer.alloc(0);

/** A nonce that was never used. */
export function freshNonce(): Buffer {
  // What was given out before keeps its memory.
  if (random.length === 0) random = randomBytes(NONCES * NONCE_BYTES);
  const nonce = random.subarray(0, NONCE_BYTES);
  random = random.subarray(NONCE_BYTES);
  return nonce;
}

/** A request as it goes to the driver. */
export function requestMessage(nonce: Buffer, kind: MessageKind, code: string): Buffer {
  const length = Buffer.byteLength(code);
  const message = Buffer.alloc(HEAD_BYTES + length);
  nonce.copy(message);
  message.writeUInt8(kind, NONCE_BYTES);
  message.writeUInt32LE(length, NONCE_BYTES + 4);
  message.write(code, HEAD_BYTES);
  return message;
}

/** What is on the channel and belongs to no call. */
export interface Dropped {
  messages: number;
  bytes: number;
}

/** The driver broke off, or somebody who knows the nonce writes in its place. */
export class MalformedReply extends Error {}

/** Finds the pieces of one call's reply among whatever else is on the channel. */
export class ReplyReader {
  readonly dropped: Dropped = { messages: 0, bytes: 0 };
  #nonce: Buffer | null = null;
  #most = 0;
  #pending: Buffer = Buffer.alloc(0);
  #pieces: Buffer[] = [];
  #bytes = 0;

  /** From now on only pieces with this nonce count; a reply has at most so many bytes. */
  expect(nonce: Buffer, mostBytes: number): void {
    this.#drop(this.#pending.length);
    this.#pending = Buffer.alloc(0);
    this.#nonce = nonce;
    this.#most = mostBytes;
    this.#pieces = [];
    this.#bytes = 0;
  }

  /** The whole reply, once its last piece is there. Errors: `MalformedReply`. */
  push(data: Uint8Array): Buffer | null {
    if (this.#nonce === null) {
      this.#drop(data.length);
      return null;
    }
    let rest = this.#pending.length === 0 ? Buffer.from(data) : Buffer.concat([this.#pending, data]);
    this.#pending = Buffer.alloc(0);
    for (;;) {
      const at = rest.indexOf(this.#nonce);
      if (at < 0) {
        // The beginning of a nonce may be there.
        const kept = Math.min(rest.length, NONCE_BYTES - 1);
        this.#drop(rest.length - kept);
        this.#pending = rest.subarray(rest.length - kept);
        return null;
      }
      this.#drop(at);
      rest = rest.subarray(at);
      const end = pieceEnd(rest);
      if (end === null) {
        this.#pending = rest;
        return null;
      }
      const reply = this.#take(rest.subarray(0, end));
      rest = rest.subarray(end);
      if (reply !== null) {
        this.#nonce = null;
        this.#drop(rest.length);
        return reply;
      }
    }
  }

  #take(piece: Buffer): Buffer | null {
    const place = piece.readUInt16LE(NONCE_BYTES + 2);
    // One that was written twice.
    if (place < this.#pieces.length) return null;
    if (place > this.#pieces.length) throw new MalformedReply('a piece is missing');
    const body = piece.subarray(HEAD_BYTES);
    this.#bytes += body.length;
    if (this.#bytes > this.#most) throw new MalformedReply('it is too long');
    this.#pieces.push(body);
    return piece[NONCE_BYTES + 1] === 0 ? null : Buffer.concat(this.#pieces);
  }

  #drop(bytes: number): void {
    if (bytes === 0) return;
    this.dropped.bytes += bytes;
    this.dropped.messages += 1;
  }
}

/** Where the piece at the start ends; `null` while it is not whole. */
function pieceEnd(from: Buffer): number | null {
  if (from.length < HEAD_BYTES) return null;
  const length = from.readUInt32LE(NONCE_BYTES + 4);
  if (length > MOST_PIECE) throw new MalformedReply('a piece is too long');
  return from.length < HEAD_BYTES + length ? null : HEAD_BYTES + length;
}

/** What a value looks like, by media type: text, or bytes. */
export type Forms = Readonly<Record<string, string | Buffer>>;

/** A reply to code. */
export interface CodeReply {
  readonly result: string | null;
  readonly error: string | null;
  /** Further forms of the result; `null`: it has none. */
  readonly forms: Forms | null;
  /** What was shown beside the result. */
  readonly displays: readonly Forms[];
  /** Whether something was cut or left out. */
  readonly truncated: boolean;
}

/** A reply to hello. */
export interface HelloReply {
  /** As in `3.11.2`. */
  readonly version: string;
  /** SIGINTs that the driver has had. */
  readonly interrupts: number;
}

const Tag = { result: 1, error: 2, item: 3, end: 4 } as const;

/** Errors: `MalformedReply`. */
export function readCodeReply(payload: Buffer): CodeReply {
  const reader = new FieldReader(payload);
  let [result, error, forms]: [string | null, string | null, Forms | null] = [null, null, null];
  const displays: Forms[] = [];
  for (;;) {
    const tag = reader.u8();
    const body = reader.bytes();
    if (tag === Tag.result) result = body.toString();
    else if (tag === Tag.error) error = body.toString();
    else if (tag === Tag.item && body[0] === 0) forms = readForms(body);
    else if (tag === Tag.item) displays.push(readForms(body));
    else if (tag === Tag.end && body.length === 1 && reader.isAtEnd) {
      return { result, error, forms, displays, truncated: body[0] === 1 };
    } else throw new MalformedReply('an unknown field');
  }
}

/** Errors: `MalformedReply`. */
export function readHelloReply(payload: Buffer): HelloReply {
  if (payload.length !== 7) throw new MalformedReply('a hello of another length');
  const version = `${payload[0]}.${payload[1]}.${payload[2]}`;
  return { version, interrupts: payload.readUInt32LE(3) };
}

function readForms(body: Buffer): Forms {
  const reader = new FieldReader(body.subarray(1));
  const forms: Record<string, string | Buffer> = {};
  while (!reader.isAtEnd) {
    const isText = reader.u8() === 1;
    const name = reader.take(reader.u8()).toString('latin1');
    const form = reader.bytes();
    forms[name] = isText ? form.toString() : form;
  }
  return forms;
}

class FieldReader {
  readonly #from: Buffer;
  #at = 0;

  constructor(from: Buffer) {
    this.#from = from;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#from.length;
  }

  take(count: number): Buffer {
    if (count > this.#from.length - this.#at) throw new MalformedReply('it ends early');
    this.#at += count;
    return this.#from.subarray(this.#at - count, this.#at);
  }

  u8(): number {
    return this.take(1).readUInt8();
  }

  bytes(): Buffer {
    return this.take(this.take(4).readUInt32LE());
  }
}
