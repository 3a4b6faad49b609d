import type { ServerResponse } from 'node:http';
import { StringDecoder } from 'node:string_decoder';
import { IdleTimer, processStatus, write } from '@boxkite/kit';
import type { ExecEvent } from '@boxkite/protocol';

/** Clients of the reference give up after 30 s without a byte. */
const KEEP_ALIVE_MS = 15_000;

/** Follows a process by the reference's events. A cut stream ends without `exit`, as the reference's does. */
export async function streamProcess(
  events: AsyncIterable<ExecEvent>,
  response: ServerResponse,
  report: (error: unknown) => void,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  response.flushHeaders();
  const idle = new IdleTimer(KEEP_ALIVE_MS, () => {
    if (!response.writableNeedDrain) response.write(': keep-alive\n\n');
  });
  const decoder = new StringDecoder('utf8');
  let truncated = false;
  let next_offset = 0;
  try {
    for await (const event of events) {
      idle.touch();
      if (event.type === 'gap') {
        truncated = true;
        continue;
      }
      // What is left of a character comes before the gap or the end that cuts it.
      const cut = truncated || event.type === 'ended' ? decoder.end() : '';
      const parts: Uint8Array[] = [];
      if (event.type === 'output') {
        next_offset = event.offset + event.data.length;
        const stdout_chunk = cut + decoder.write(Buffer.from(event.data));
        parts.push(encoded('output', { stdout_chunk, next_offset, truncated }));
      } else {
        if (cut !== '') parts.push(encoded('output', { stdout_chunk: cut, next_offset, truncated }));
        parts.push(encoded('exit', processStatus(event.record)));
      }
      const room = write(response, parts);
      truncated = false;
      if (room === false || (room !== true && !(await room))) return;
    }
  } catch (error) {
    if (!response.destroyed) report(error);
  } finally {
    idle.stop();
    response.end();
  }
}

function encoded(type: string, data: object): Uint8Array {
  return Buffer.from(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
}
