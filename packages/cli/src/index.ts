export { runCli } from './cli.ts';
export type { CommandIo } from './io.ts';
export type { Services } from './services.ts';
