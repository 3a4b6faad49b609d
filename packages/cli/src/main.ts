/** Composition root of the command line, and the only reader of the environment. */
import { runCli } from './cli.ts';
import { endStatus } from './end-status.ts';
import { processIo } from './process-io.ts';
import { realServices } from './real-services.ts';

const io = processIo(process.env);
const status = await endStatus(io, await runCli(process.argv.slice(2), io, realServices));
await io.flushMessages();
// Nothing may keep the program once its work is done: not a standard input that nobody closes.
process.exit(status);
