/** What a script finds that runs in the place of the one that decodes images, without Node's own permission model. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { nativeProgram } from '@boxkite/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startConfinedNode } from '../src/images/confined.ts';

const LONG = { timeout: 60_000 };
/** Answers each attempt with its error code, or with `done`. */
const PROBE = `
import { execFileSync, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { Worker } from 'node:worker_threads';
const [, script, port, directory, parent] = process.argv;
const tries = {
  connect: () => once(connect(Number(port), '127.0.0.1'), 'connect'),
  connectUnix: () => once(connect(directory + '/socket'), 'connect'),
  listen: () => once(createServer().listen(0, '127.0.0.1'), 'listening'),
  datagram: () => once(createSocket('udp4').bind(0), 'listening'),
  readPasswords: () => readFileSync('/etc/passwd'),
  readSecret: () => readFileSync(directory + '/secret'),
  write: () => writeFileSync(directory + '/written', 'x'),
  overwrite: () => writeFileSync(script, 'x'),
  makeDirectory: () => mkdirSync(directory + '/made'),
  remove: () => rmSync(directory + '/secret'),
  changeMode: () => chmodSync(script, 0o777),
  execute: () => execFileSync('/bin/true'),
  spawn: () => once(spawn('/bin/true'), 'spawn'),
  fork: () => { for (let made = 0; made < 1000; made += 1) execFileSync(process.execPath, ['-e', '0']); },
  signal: () => process.kill(Number(parent), 0),
  readItself: () => readFileSync(script),
  thread: () => once(new Worker('0', { eval: true }), 'exit'),
};
const input = [];
for await (const part of process.stdin) input.push(part);
const answer = { input: Buffer.concat(input).length, uid: process.getuid() };
for (const [name, attempt] of Object.entries(tries)) {
  try {
    await attempt();
    answer[name] = 'done';
  } catch (error) {
    answer[name] = error.code;
  }
}
process.stdout.write(JSON.stringify(answer), () => process.exit());
`;

let directory: string;
let script: string;
let server: Server;
let unixServer: Server;
let connections = 0;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'boxkite-confined-'));
  script = join(directory, 'probe.mjs');
  writeFileSync(script, PROBE);
  writeFileSync(join(directory, 'secret'), 'secret');
  const count = (): void => {
    connections += 1;
  };
  server = createServer(count);
  unixServer = createServer(count);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  await new Promise<void>((resolve) => unixServer.listen(join(directory, 'socket'), resolve));
});

afterAll(() => {
  server.close();
  unixServer.close();
  rmSync(directory, { recursive: true, force: true });
});

/** Kernels without Landlock leave files to their modes. */
const hasLandlock = /\blandlock\b/.test(readIfThere('/sys/kernel/security/lsm') ?? 'landlock');

function readIfThere(path: string): string | null {
  return existsSync(path) ? readFileSync(path, 'utf8') : null;
}

it('reaches no network, no file, no other process, and answers on its descriptors', LONG, async () => {
  const address = server.address();
  const port = address !== null && typeof address === 'object' ? address.port : 0;
  const words = [script, String(port), directory, String(process.pid)];
  const child = startConfinedNode(nativeProgram('boxkite-runner'), words, [script]);
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) throw new Error('it has no descriptors');
  // More than a buffer of the kernel holds.
  stdin.end(Buffer.alloc(3_000_000));
  const answer: unknown = JSON.parse(await text(stdout));
  const unread = hasLandlock ? 'EACCES' : 'done';
  expect(answer).toEqual({
    input: 3_000_000,
    uid: process.getuid?.(),
    connect: 'EPERM',
    connectUnix: 'EPERM',
    listen: 'EPERM',
    datagram: 'EPERM',
    readPasswords: unread,
    readSecret: unread,
    write: 'EPERM',
    overwrite: 'EPERM',
    makeDirectory: 'EPERM',
    remove: 'EPERM',
    changeMode: 'EPERM',
    execute: 'EPERM',
    spawn: 'EPERM',
    fork: 'EPERM',
    signal: 'EPERM',
    readItself: 'done',
    thread: 'done',
  });
  expect(connections).toBe(0);
  expect(existsSync(join(directory, 'secret'))).toBe(true);
});
