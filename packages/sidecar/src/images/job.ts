/** What the helper process is asked, and how it answers: a length, JSON of that length, bytes to the end of the stream. */

/** An image of more is not decoded; it is then shown as it is. */
export const MOST_PIXELS = 40_000_000;

/** Formats that are decoded and encoded. */
export type Codec = 'png' | 'jpeg' | 'webp';

/** One image to be made smaller. */
export interface ImageJob {
  readonly codec: Codec;
  /** Of the longer side. */
  readonly maxDimension: number;
  readonly jpegQuality: number;
  readonly webpQuality: number;
  /** 0 to 9. */
  readonly pngCompression: number;
}

/** What became of it; bytes follow if `changed`. */
export interface ImageOutcome {
  readonly changed: boolean;
}

/** What a pixel takes that nothing makes smaller, in a line of its own, which has a byte more. */
const PIXEL_BYTES = 5;
/** Of a format, and of whole blocks of a few pixels. */
const ROOM_BYTES = 16 * 1024 * 1024;

/** No answer is longer: an image that was not scaled is answered only where it has become smaller. */
export function longestAnswer({ maxDimension }: ImageJob, bytes: Uint8Array): number {
  return Math.max(bytes.length, PIXEL_BYTES * Math.min(maxDimension ** 2, MOST_PIXELS)) + ROOM_BYTES;
}

/** Puts both behind each other. */
export function encodeMessage(head: ImageJob | ImageOutcome, bytes: Uint8Array): readonly Uint8Array[] {
  const json = Buffer.from(JSON.stringify(head));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(json.length);
  return [length, json, bytes];
}

/** Takes them apart; throws where it is no such message. */
export function decodeMessage(message: Buffer): { readonly head: unknown; readonly bytes: Buffer } {
  const length = message.readUInt32LE(0);
  if (length > message.length - 4) throw new RangeError('the message is too short');
  const head: unknown = JSON.parse(message.toString('utf8', 4, 4 + length));
  return { head, bytes: message.subarray(4 + length) };
}
