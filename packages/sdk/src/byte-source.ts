/** Bytes of a caller: text, bytes, or a stream of either, of the web or of Node. */
import { BoxkiteError } from '@boxkite/protocol';

/** What is used of a `ReadableStream` of the web. */
export interface WebStream {
  getReader(): {
    read(): Promise<{ readonly done: boolean; readonly value?: string | Uint8Array | undefined }>;
    cancel(reason?: unknown): Promise<void>;
  };
}

/** A stream of bytes or of text, which is written as UTF-8: an iterable such as Node's streams, or a web stream. */
export type ByteSource = AsyncIterable<string | Uint8Array> | WebStream;

/** The parts of what was given, as bytes. Errors: `invalid_request` for a part that is neither text nor bytes; the source's own. */
export async function* byteChunks(data: string | Uint8Array | ByteSource): AsyncGenerator<Uint8Array, void, undefined> {
  const encoder = new TextEncoder();
  if (typeof data === 'string') yield encoder.encode(data);
  else if (data instanceof Uint8Array) yield data;
  else for await (const part of parts(data)) yield typeof part === 'string' ? encoder.encode(part) : bytes(part);
}

function parts(source: ByteSource): AsyncIterable<unknown> {
  if (Symbol.asyncIterator in source) return source;
  if (typeof source === 'object' && 'getReader' in source) return webParts(source);
  throw new BoxkiteError('invalid_request', 'what is written is to be text, bytes or a stream of them', {
    details: { field: 'data' },
  });
}

/** Browsers that can't iterate a web stream are the reason for its reader. */
async function* webParts(source: WebStream): AsyncGenerator<unknown, void, undefined> {
  const reader = source.getReader();
  let ended = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      yield value;
    }
    ended = true;
  } finally {
    if (!ended) await reader.cancel();
  }
}

function bytes(part: unknown): Uint8Array {
  if (part instanceof Uint8Array) return part;
  if (part instanceof ArrayBuffer) return new Uint8Array(part);
  throw new BoxkiteError('invalid_request', 'a part of the stream is neither text nor bytes', {
    details: { field: 'data' },
  });
}
