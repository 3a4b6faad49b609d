/** What the offenders aim at: things of the host that the demo makes for them and removes at its end. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';

/** Live targets; disposing removes them. */
export interface Targets extends AsyncDisposable {
  /** A file of the caller, mode 0600, that holds `fileSecret`. */
  readonly canaryPath: string;
  readonly fileSecret: string;
  /** A live process of the caller has `environmentSecret` in this variable. */
  readonly variable: string;
  readonly environmentSecret: string;
  /** A command of another sandbox has `neighbourSecret` in this variable. */
  readonly neighbourVariable: string;
  readonly neighbourSecret: string;
  /** TCP listener on 127.0.0.1 that greets everybody. */
  readonly port: number;
  /** Abstract Unix socket that greets everybody, without the leading NUL. */
  readonly abstractName: string;
  readonly greeting: string;
}

/** Makes the targets; the directory that holds the file is made below `parent`, for the caller alone. */
export async function openTargets(parent: string): Promise<Targets> {
  await using stack = new AsyncDisposableStack();
  const token = (): string => randomBytes(16).toString('hex');
  const fileSecret = token();
  const environmentSecret = token();
  const neighbourSecret = token();
  const greeting = token();
  const variable = 'BOXKITE_DEMO_CANARY';

  const directory = await mkdtemp(join(parent, 'boxkite-canary-'));
  stack.defer(async () => await rm(directory, { recursive: true, force: true }));
  const canaryPath = join(directory, 'canary');
  await writeFile(canaryPath, `${fileSecret}\n`, { mode: 0o600 });

  // It ends at the end of its input, so with the demo, however that ends.
  const witness = spawn('/bin/cat', [], {
    env: { [variable]: environmentSecret },
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  await once(witness, 'spawn');
  stack.defer(async () => await end(witness));

  const tcp = await listen(stack, greeting, { host: '127.0.0.1', port: 0 });
  const address = tcp.address();
  if (address === null || typeof address === 'string') throw new TypeError('a TCP listener has a port');
  const abstractName = `boxkite-demo-${token()}`;
  await listen(stack, greeting, { path: `\0${abstractName}` });

  const owned = stack.move();
  return {
    canaryPath,
    fileSecret,
    variable,
    environmentSecret,
    neighbourVariable: 'BOXKITE_DEMO_NEIGHBOUR',
    neighbourSecret,
    port: address.port,
    abstractName,
    greeting,
    [Symbol.asyncDispose]: async () => await owned.disposeAsync(),
  };
}

async function listen(
  stack: AsyncDisposableStack,
  greeting: string,
  where: { readonly host: string; readonly port: number } | { readonly path: string },
): Promise<Server> {
  const server = createServer((socket) => {
    // A client that goes away early is its own affair.
    socket.on('error', () => socket.destroy());
    socket.end(`${greeting}\n`);
  });
  server.listen(where);
  await once(server, 'listening');
  stack.defer(async () => {
    server.close();
    await once(server, 'close');
  });
  return server;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
