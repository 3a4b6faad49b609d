/**
 * Stands for the daemon under supervise: it speaks the control socket as the protocol page has it, and answers one JSON
 * line per connection on every listening socket. Files in its home say how it is to misbehave. It imports nothing of ours,
 * so that it runs from a copy anywhere.
 */
import { appendFileSync, existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { connect, createServer, Socket } from 'node:net';

const control = new Socket({ fd: 3, readable: true, writable: true });
/** Resolves with the frames up to the one that answers. */
type Wait = (frames: readonly string[][]) => void;
const waiting: { frames: string[][]; done: Wait }[] = [];
let received = Buffer.alloc(0);

control.on('data', (chunk) => {
  received = Buffer.concat([received, chunk]);
  while (received.length >= 8 && received.length >= 8 + received.readUInt32LE(0)) {
    const length = received.readUInt32LE(0);
    const type = received.readUInt8(4);
    const payload = received.subarray(8, 8 + length);
    received = received.subarray(8 + length);
    const first = waiting[0];
    first?.frames.push([type.toString(16), payload.toString('base64')]);
    if (type === 0x80 || type === 0xff) waiting.shift()?.done(first?.frames ?? []);
  }
});

/** Sends a frame of the control socket; the frames that answer it, as [type in hex, payload in base64]. */
function ask(type: number, payload: Buffer): Promise<readonly string[][]> {
  const header = Buffer.alloc(8);
  header.writeUInt32LE(payload.length, 0);
  header.writeUInt8(type, 4);
  return new Promise((done) => {
    waiting.push({ frames: [], done });
    control.write(Buffer.concat([header, payload]));
  });
}

/** What the first frame of a runner says to an operation without payload; or why there is no connection. */
function runner(path: string, type: number): Promise<string> {
  const header = Buffer.alloc(12);
  header.set([1, type], 4);
  header.writeUInt32LE(1, 8);
  return new Promise((done) => {
    const socket = connect(path, () => socket.write(header));
    socket.once('data', (data) => {
      socket.destroy();
      done(`answered ${data.readUInt8(5).toString(16)}`);
    });
    socket.once('error', (error) => done(error.message));
  });
}

/** What each open descriptor is, in their order. */
function descriptors(): readonly string[] {
  const numbers = readdirSync('/proc/self/fd')
    .map(Number)
    .toSorted((a, b) => a - b);
  return numbers.flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      // The one of the listing itself.
      return [];
    }
  });
}

function describe(): unknown {
  return {
    pid: process.pid,
    parent: process.ppid,
    uid: process.getuid?.(),
    gid: process.getgid?.(),
    groups: process.getgroups?.(),
    umask: process.umask(),
    cwd: process.cwd(),
    environment: process.env,
    status: readFileSync('/proc/self/status', 'utf8'),
    limits: readFileSync('/proc/self/limits', 'utf8'),
    descriptors: descriptors(),
    arguments: process.argv.slice(2),
  };
}

interface Request {
  readonly do: 'describe' | 'ask' | 'runner' | 'exit';
  readonly type?: string;
  readonly payload?: string;
  readonly path?: string;
  readonly status?: string;
}

async function answer(line: string): Promise<unknown> {
  const request = JSON.parse(line) as Request;
  switch (request.do) {
    case 'describe':
      return describe();
    case 'ask':
      return ask(Number(request.type), Buffer.from(request.payload ?? '', 'base64'));
    case 'runner':
      return runner(request.path ?? '', Number(request.type));
    case 'exit':
      return process.exit(Number(request.status));
  }
}

const listeners = Number(process.env['BOXKITE_LISTENERS']);
appendFileSync('starts', `${Date.now()} ${process.pid}\n`);
if (existsSync('exit-status')) process.exit(Number(readFileSync('exit-status', 'utf8')));

const servers = Array.from({ length: listeners }, (_, index) => {
  const server = createServer((socket) => {
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk) => {
      text += String(chunk);
      if (!text.endsWith('\n')) return;
      void answer(text).then((value) => socket.end(JSON.stringify(value)));
    });
    socket.on('error', () => socket.destroy());
  });
  server.listen({ fd: 4 + index }, () => appendFileSync('addresses', `${JSON.stringify(server.address())}\n`));
  return server;
});

process.on('SIGTERM', () => {
  if (existsSync('stubborn')) return;
  for (const server of servers) server.close();
  writeFileSync('ended', String(process.pid));
  process.exit(0);
});
if (!existsSync('never-ready')) await ask(4, Buffer.alloc(0));
