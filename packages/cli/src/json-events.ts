/** Output events as `/v1` sends them to readers of text: one object each. */
import type { ExecEvent, OutputStream } from '@boxkite/protocol';
import { isText } from './attached-command.ts';

/** Bytes of a character that the next piece completes. */
interface Held {
  readonly offset: number;
  readonly data: Uint8Array;
}

/**
 * `{type: "output", stream, offset, data}` (or `data_base64` where the bytes are not UTF-8), `{type: "gap", stream, from,
 * to}`, `{type: "exit", …record}`. A character that is cut between two pieces comes whole with the second.
 */
export async function* jsonEvents(events: AsyncIterable<ExecEvent>): AsyncGenerator<object, void, undefined> {
  const held = new Map<OutputStream, Held>();
  const release = function* (streams: readonly OutputStream[]): Generator<object, void, undefined> {
    for (const stream of streams) {
      const rest = held.get(stream);
      if (rest !== undefined) yield outputObject(stream, rest);
      held.delete(stream);
    }
  };
  for await (const event of events) {
    if (event.type === 'ended') {
      yield* release(['stdout', 'stderr']);
      yield { type: 'exit', ...event.record };
    } else if (event.type === 'gap') {
      yield* release([event.stream]);
      yield event;
    } else {
      const piece = joined(held.get(event.stream), event);
      const cut = piece.data.length - unfinished(piece.data);
      held.delete(event.stream);
      if (cut < piece.data.length) held.set(event.stream, { offset: piece.offset + cut, data: piece.data.slice(cut) });
      if (cut > 0) yield outputObject(event.stream, { offset: piece.offset, data: piece.data.subarray(0, cut) });
    }
  }
  yield* release(['stdout', 'stderr']);
}

function joined(before: Held | undefined, event: Held): Held {
  if (before === undefined) return event;
  return { offset: before.offset, data: Buffer.concat([before.data, event.data]) };
}

function outputObject(stream: OutputStream, { offset, data }: Held): object {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const content = isText(data) ? { data: bytes.toString('utf8') } : { data_base64: bytes.toString('base64') };
  return { type: 'output', stream, offset, ...content };
}

/** How many bytes at the end begin a character of UTF-8 that is longer. */
function unfinished(data: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, data.length); back += 1) {
    const byte = data[data.length - back] ?? 0;
    if (byte < 0x80) return 0;
    if (byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}
