/** The measured side of the daemon's rows: the bundled daemon, and the SDK over its `/v1`. */
import { existsSync } from 'node:fs';
import { startDaemon, type TestDaemon, type TestDaemonOptions } from '@boxkite/testing';
import { type HttpProvider, Sandbox, type SandboxOptions, serverProvider } from 'boxkite';
import { MissingPrerequisite } from './row.ts';

const BUNDLE = new URL('../../dist/boxkite.mjs', import.meta.url);

/** Calls with a daemon of its own, stopped afterwards. */
export async function withDaemon<Result>(
  use: (daemon: TestDaemon, create: (options?: SandboxOptions) => Promise<Sandbox>) => Promise<Result>,
  options: TestDaemonOptions = {},
): Promise<Result> {
  if (!existsSync(BUNDLE)) throw new MissingPrerequisite('dist/boxkite.mjs is missing', 'make bundle');
  await using daemon = await startDaemon({ bundled: true, ...options });
  const provider = providerOf(daemon);
  try {
    return await use(daemon, async (spec = {}) => await Sandbox.create({ ...spec, provider }));
  } finally {
    await provider.close();
  }
}

/** The SDK's client of a daemon; `socket`: by another way to it. The caller closes it. */
export function providerOf(daemon: TestDaemon, socket: string = daemon.socket): HttpProvider {
  return serverProvider({ url: `unix://${socket}`, apiKey: daemon.key() });
}
