/**
 * Reads the output of one producer to its end, checks every byte, and prints MB/s: by the SDK from a sandbox of a daemon,
 * or through a pipe. A process of its own for each reading, so that neither side works in the heap that the other has
 * grown. Arguments: number of blocks, then `pipe`, or a socket and the id of a sandbox; the key comes by BENCH_KEY.
 */
import { Sandbox, serverProvider } from 'boxkite';
import { buildBlock } from '../pattern.ts';
import { bareRate, checkingSink, producer, type Sink } from '../rows/output.ts';
import { streamedRate } from '../streamed-rate.ts';

const [amount = '', source = '', id = ''] = process.argv.slice(2);
const blocks = Number(amount);
/** Read before what counts, since no long reading is a process's first. */
const warmBlocks = Math.ceil(blocks / 16);

type Read = (argv: readonly string[], blocks: number, sink: Sink) => Promise<number>;

async function measured(read: Read): Promise<number> {
  await read(await producer(warmBlocks, []), warmBlocks, checkingSink(buildBlock([]), warmBlocks));
  return await read(await producer(blocks, []), blocks, checkingSink(buildBlock([]), blocks));
}

async function overSdk(): Promise<number> {
  const provider = serverProvider({ url: `unix://${source}`, apiKey: process.env['BENCH_KEY'] });
  const sandbox = await Sandbox.connect(id, { provider });
  const rate = await measured((argv, count, sink) => streamedRate(sandbox, argv, count, sink));
  await provider.close();
  return rate;
}

process.stdout.write(`${await (source === 'pipe' ? measured(bareRate) : overSdk())}\n`);
