import type { Sandbox } from 'boxkite';
import { megabytesPerSecond, type Sink } from './rows/output.ts';

/** MB/s that a command of a sandbox wrote, read by the SDK's stream from its call to its end. */
export async function streamedRate(
  sandbox: Sandbox,
  argv: readonly string[],
  blocks: number,
  sink: Sink,
): Promise<number> {
  const start = performance.now();
  for await (const event of sandbox.stream(argv)) {
    if (event.type === 'gap') throw new TypeError(`the bytes ${event.from} to ${event.to} were dropped`);
    if (event.type === 'output' && event.stream === 'stdout') sink.push(event.data);
    if (event.type === 'ended' && !event.result.ok) throw new TypeError(`the producer ended as ${event.result.end}`);
  }
  sink.flush();
  return megabytesPerSecond(blocks, start);
}
