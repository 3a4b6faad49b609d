/** Small notes of an agent: in memory, and in that of the supervisor; on no disk, in no store, gone with the use. */
import { promisify } from 'node:util';
import { constants, deflateRaw, inflateRawSync, type ZlibOptions } from 'node:zlib';
import { BoxkiteError } from '@boxkite/protocol';
import type { SessionPart } from './part.ts';
import type { StateBlob } from './session-state.ts';

/** Characters of a key. */
const MOST_KEY_CHARACTERS = 256;
/** UTF-8 bytes of a value. */
const MOST_VALUE_BYTES = 65_536;
/** Keys of one session. */
export const MOST_KEYS = 256;
/** UTF-8 bytes of all keys and values. */
export const MOST_TOTAL_BYTES = 1_048_576;

const LENGTH_BYTES = 4;
/** What the supervisor takes is no larger than all keys and values, and these have their lengths beside them. */
const MOST_BLOB_BYTES = 1_048_576;
/** First byte of a blob. */
const PLAIN = 0;
const DEFLATED = 1;

const deflate = promisify(deflateRaw) as (bytes: Uint8Array, options: ZlibOptions) => Promise<Buffer>;

/** What a listing says of one. */
export interface ScratchEntry {
  readonly key: string;
  /** Of the value. */
  readonly bytes: number;
}

/** See above. Changes follow each other, and count once the supervisor has them. */
export class Scratch implements SessionPart {
  readonly #blob: StateBlob | null;
  #values = new Map<string, string>();
  #changing: Promise<unknown> = Promise.resolve();
  #uses = 0;
  /** Between two uses nobody notes anything. */
  #isEnded = false;

  /** `blob`: where an earlier process of this session has left them; `null`: they end with this one. */
  constructor(blob: StateBlob | null) {
    this.#blob = blob;
    const kept = blob?.get() ?? null;
    if (kept !== null) this.#values = decode(kept);
  }

  get(key: string): string | null {
    return this.#values.get(key) ?? null;
  }

  /** By their keys. */
  list(): { readonly entries: readonly ScratchEntry[]; readonly totalBytes: number } {
    const entries = [...this.#values].map(([key, value]) => ({ key, bytes: Buffer.byteLength(value) }));
    entries.sort((a, b) => (a.key < b.key ? -1 : 1));
    return { entries, totalBytes: bytesOf(this.#values) };
  }

  /** Answers how many there are. Errors: `bad_request`, `payload_too_large`, `conflict`, `generation_gone`. */
  set(key: string, value: string): Promise<number> {
    if (key.trim() === '' || [...key].length > MOST_KEY_CHARACTERS) {
      throw new BoxkiteError(
        'bad_request',
        `a key is to have 1 to ${MOST_KEY_CHARACTERS} characters, not blanks alone`,
        {
          hint: 'Use a short name as the key.',
          details: { field: 'key' },
        },
      );
    }
    const bytes = Buffer.byteLength(value);
    if (bytes > MOST_VALUE_BYTES)
      throw tooLarge(`a value has up to ${MOST_VALUE_BYTES} bytes`, MOST_VALUE_BYTES, bytes);
    return this.#change((values) => {
      if (!values.has(key) && values.size >= MOST_KEYS) {
        throw new BoxkiteError('conflict', `there are ${MOST_KEYS} keys already`, {
          hint: 'Delete a key, or write over one.',
          details: { limit: MOST_KEYS },
        });
      }
      values.set(key, value);
      const total = bytesOf(values);
      if (total > MOST_TOTAL_BYTES) {
        throw tooLarge(`all keys and values have up to ${MOST_TOTAL_BYTES} bytes`, MOST_TOTAL_BYTES, total);
      }
      return values.size;
    });
  }

  /** Answers whether there was one, and how many are left. Errors: `generation_gone`. */
  delete(key: string): Promise<{ readonly deleted: boolean; readonly keys: number }> {
    return this.#change((values) => ({ deleted: values.delete(key), keys: values.size }));
  }

  reset(): Promise<void> {
    this.#isEnded = true;
    return this.spent();
  }

  spent(): Promise<void> {
    this.#uses += 1;
    return this.#inTurn(async () => {
      this.#values = new Map();
      if (this.#blob?.get() != null) await this.#blob.put(await encode(this.#values));
    });
  }

  begin(): Promise<void> {
    this.#isEnded = false;
    return Promise.resolve();
  }

  /** Nothing changes unless it is kept. */
  #change<T>(change: (values: Map<string, string>) => T): Promise<T> {
    const use = this.#uses;
    return this.#inTurn(async () => {
      if (use !== this.#uses || this.#isEnded)
        throw new BoxkiteError('generation_gone', 'the scratch memory was cleared meanwhile');
      const values = new Map(this.#values);
      const answer = change(values);
      await this.#blob?.put(await encode(values));
      this.#values = values;
      return answer;
    });
  }

  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const changing = this.#changing.then(change);
    this.#changing = changing.catch(() => undefined);
    return changing;
  }
}

function bytesOf(values: ReadonlyMap<string, string>): number {
  let total = 0;
  for (const [key, value] of values) total += Buffer.byteLength(key) + Buffer.byteLength(value);
  return total;
}

function tooLarge(message: string, limit: number, bytes: number): BoxkiteError {
  return new BoxkiteError('payload_too_large', message, {
    hint: 'Keep less, or put it into a file of the workspace.',
    details: { limit, bytes },
  });
}

/**
 * Keys and values in turn, each behind its length: little more than their bytes, which a text of JSON is not. Bytes of
 * UTF-8 have at most 7.8 bits each, so that what is a little too large is not when it is deflated.
 */
async function encode(values: ReadonlyMap<string, string>): Promise<Uint8Array> {
  const parts: Buffer[] = [Buffer.of(PLAIN)];
  for (const text of [...values].flat()) {
    const bytes = Buffer.from(text);
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32LE(bytes.length);
    parts.push(length, bytes);
  }
  const whole = Buffer.concat(parts);
  if (whole.length <= MOST_BLOB_BYTES) return whole;
  const options = { strategy: constants.Z_HUFFMAN_ONLY };
  return Buffer.concat([Buffer.of(DEFLATED), await deflate(whole.subarray(1), options)]);
}

function decode(blob: Uint8Array): Map<string, string> {
  const bytes = blob[0] === DEFLATED ? inflateRawSync(blob.subarray(1)) : Buffer.from(blob.subarray(1));
  const texts: string[] = [];
  for (let at = 0; at + LENGTH_BYTES <= bytes.length; ) {
    const end = at + LENGTH_BYTES + bytes.readUInt32LE(at);
    texts.push(bytes.toString('utf8', at + LENGTH_BYTES, end));
    at = end;
  }
  const values = new Map<string, string>();
  for (let at = 0; at + 1 < texts.length; at += 2) values.set(texts[at] ?? '', texts[at + 1] ?? '');
  return values;
}
