/** Bytes or text; text is sent as UTF-8. Paths are bytes: one that is no UTF-8 is given as a Uint8Array. */
export type PathLike = string | Uint8Array;

type Field = { readonly u8: number } | { readonly u32: number } | { readonly u64: number | bigint } | PathLike;

/** Puts fields one behind the other: numbers little-endian, strings with their length before them. */
export function encodePayload(...fields: readonly Field[]): Buffer {
  return Buffer.concat(fields.map(encodeField));
}

function encodeField(field: Field): Uint8Array {
  if (typeof field === 'string') return withLength(Buffer.from(field));
  if (field instanceof Uint8Array) return withLength(field);
  if ('u8' in field) return Uint8Array.of(field.u8);
  if ('u32' in field) {
    const out = Buffer.allocUnsafe(4);
    out.writeUInt32LE(field.u32);
    return out;
  }
  const out = Buffer.allocUnsafe(8);
  out.writeBigUInt64LE(BigInt(field.u64));
  return out;
}

function withLength(bytes: Uint8Array): Buffer {
  const out = Buffer.allocUnsafe(4 + bytes.length);
  out.writeUInt32LE(bytes.length);
  out.set(bytes, 4);
  return out;
}

/** Reads the fields of a payload in order; throws a RangeError where it is too short. */
export class PayloadReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Whether fields are left. */
  get more(): boolean {
    return this.#at < this.#bytes.length;
  }

  u8(): number {
    return this.#bytes.readUInt8(this.#move(1));
  }

  u16(): number {
    return this.#bytes.readUInt16LE(this.#move(2));
  }

  u32(): number {
    return this.#bytes.readUInt32LE(this.#move(4));
  }

  i32(): number {
    return this.#bytes.readInt32LE(this.#move(4));
  }

  /** A 64-bit number; beyond 2^53 it loses its last digits. */
  u64(): number {
    return Number(this.#bytes.readBigUInt64LE(this.#move(8)));
  }

  /** A signed 64-bit number; beyond 2^53 it loses its last digits. */
  i64(): number {
    return Number(this.#bytes.readBigInt64LE(this.#move(8)));
  }

  /** Exactly this many bytes, copied. */
  raw(length: number): Buffer {
    const from = this.#move(length);
    return Buffer.from(this.#bytes.subarray(from, from + length));
  }

  /** A string: its length, then its bytes, copied. */
  bytes(): Buffer {
    return this.raw(this.u32());
  }

  #move(count: number): number {
    const from = this.#at;
    if (from + count > this.#bytes.length) throw new RangeError('the payload is too short');
    this.#at = from + count;
    return from;
  }
}
