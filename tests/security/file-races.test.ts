/**
 * Directories and files are exchanged with links that lead out, as fast as the kernel does it, while clients call. Nothing
 * outside is read or written by any call; what calls answer and store is only what was made inside.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSidecar, type Session, SessionRegistry } from '@boxkite/sidecar/app';
import { FsObjectStore } from '@boxkite/storage';
import { lane, slowness, within } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SessionHost } from '../contract/support/sessions.ts';

/** In the lane of root all that is promised; others show that it is no different there. */
const CALLS = Math.ceil((lane === 'root' ? 100_000 : 10_000) / slowness);
const IN_FLIGHT = 12;
const TOKEN = randomBytes(32).toString('base64url');
const CANARY = `canary-${randomBytes(16).toString('hex')}`;
const EXCHANGE = new URL('support/exchange.py', import.meta.url);

let host: SessionHost;
let session: Session;
let outside: string;
let stored: string;
let port: number;
const closing = new AbortController();
const cleanup = new AsyncDisposableStack();

beforeAll(async () => {
  outside = mkdtempSync(join(tmpdir(), 'boxkite-outside-'));
  stored = mkdtempSync(join(tmpdir(), 'boxkite-objects-'));
  for (const directory of [outside, join(outside, 'sub')]) {
    mkdirSync(directory, { recursive: true, mode: 0o777 });
    for (const name of ['f', 'g']) writeFileSync(join(directory, name), CANARY, { mode: 0o666 });
  }
  // What the reference leaked first.
  process.env['BOXKITE_RACE_CANARY'] = CANARY;
  host = await SessionHost.start();
  host.objects = await FsObjectStore.open(stored);
  session = await host.open('raced');
  const registry = new SessionRegistry();
  registry.add(TOKEN, session);
  const app = createSidecar(registry, { closing: closing.signal });
  port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port);
  cleanup.defer(async () => {
    closing.abort();
    app.server.closeAllConnections();
    await app.close();
    await host[Symbol.asyncDispose]();
  });
}, within(120_000));

afterAll(async () => {
  await cleanup.disposeAsync();
  delete process.env['BOXKITE_RACE_CANARY'];
  for (const directory of [outside, stored]) rmSync(directory, { recursive: true, force: true });
});

interface Reply {
  readonly status: number;
  readonly body: Buffer;
}

const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT });

function send(method: string, path: string, body?: object | Buffer): Promise<Reply> {
  const bytes = body === undefined || Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
  const headers = {
    'x-sidecar-auth-token': TOKEN,
    'content-type': Buffer.isBuffer(body) ? 'application/x-tar' : 'application/json',
    ...(bytes === undefined ? {} : { 'content-length': bytes.length }),
  };
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, method, path, agent, headers }, (answer) => {
      const parts: Buffer[] = [];
      answer.on('data', (part: Buffer) => parts.push(part));
      // An archive of what changes may break off; what came by then counts.
      const done = (): void => resolve({ status: answer.statusCode ?? 0, body: Buffer.concat(parts) });
      answer.once('end', done);
      answer.once('error', done);
    });
    sent.once('error', reject);
    sent.end(bytes);
  });
}

async function sh(command: string): Promise<string> {
  const { record, stdout, stderr } = await session.execs.run({ argv: ['sh', '-c', command], timeout_ms: 60_000 });
  if (record.exit_code !== 0) throw new Error(Buffer.from(stderr).toString());
  return Buffer.from(stdout).toString();
}

/** Names, kinds, times and contents of the tree. */
function snapshot(directory: string): readonly string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => {
      const path = join(directory, name);
      const { mode, size, mtimeMs, ctimeMs } = statSync(path);
      const content = statSync(path).isFile() ? readFileSync(path, 'utf8') : '';
      return [name, mode, size, mtimeMs, ctimeMs, content].join(' ');
    });
}

/** A call and what a good answer to it may hold. */
interface Act {
  readonly name: string;
  /** Of a hundred. */
  readonly share: number;
  call(number: number): Promise<Reply>;
  /** What it shows of files. */
  texts(body: Buffer): readonly string[];
}

/** Every content that was made inside begins so. */
const INSIDE = /^(?:inside|made|edit)/;
const json = (body: Buffer) => JSON.parse(body.toString()) as Readonly<Record<string, unknown>>;
const PLACES = ['race/dir/f', 'race/dir/sub/f', 'race/file', 'race/deep/a/b/f', '/outputs/race/f', '/tmp/race/f'];
const place = (number: number) => PLACES[number % PLACES.length] ?? 'race/file';
const none = () => [];

function acts(archive: Buffer): readonly Act[] {
  return [
    {
      name: 'view',
      share: 45,
      call: (number) => send('POST', '/view', { path: place(number) }),
      texts: (body) => (json(body)['is_directory'] === true ? [] : [String(json(body)['content'])]),
    },
    {
      name: 'create',
      share: 20,
      call: (number) => send('POST', '/file-create', { path: place(number), content: `made ${number}` }),
      texts: none,
    },
    {
      name: 'replace',
      share: 20,
      call: (number) => {
        const body = { path: place(number), old_str: 'made', new_str: 'edit', replace_all: true };
        return send('POST', '/str-replace', body);
      },
      texts: none,
    },
    {
      name: 'grep',
      share: 5,
      call: () => send('POST', '/grep', { path: 'race', pattern: '.' }),
      texts: (body) => (json(body)['matches'] as readonly { text: string }[]).map(({ text }) => text),
    },
    { name: 'ls', share: 4, call: () => send('POST', '/ls', { path: 'race/dir' }), texts: none },
    {
      name: 'present',
      share: 2,
      call: (number) => send('POST', '/present-files', { filepaths: [place(number)] }),
      texts: none,
    },
    {
      name: 'pack',
      share: 2,
      call: () => send('GET', '/files/archive?path=race/dir'),
      // Contents of a tar begin at blocks.
      texts: none,
    },
    { name: 'unpack', share: 2, call: () => send('PUT', '/files/archive?path=race/dir', archive), texts: none },
  ];
}

/** What is exchanged, without an end. */
const PAIRS = [
  ['race/dir', 'race/out1', 'race/file', 'race/out3', 'race/dir', 'race/out2', 'race/dir/sub', 'race/out1'],
  ['race/deep/a', 'race/out5', 'race/deep', 'race/out4', 'race/file', 'race/out6'],
  ['/mnt/user-data/outputs/race', '/mnt/user-data/outputs/out', '/tmp/race', '/tmp/race-out'],
].flat();

async function prepare(): Promise<Buffer> {
  const configured = await send('POST', '/configure', { session_id: 'race', storage_prefix: 'race' });
  expect(configured.status, configured.body.toString()).toBe(200);
  await session.files.write('exchange.py', readFileSync(EXCHANGE));
  await sh(`
    mkdir given; printf 'made given' > given/f; printf 'made given' > given/g
    for base in /mnt/user-data/outputs/race /tmp/race; do mkdir $base; printf inside > $base/f; done
    mkdir race; cd race; mkdir -p dir/sub deep/a/b
    for at in . dir dir/sub deep/a/b; do printf inside > $at/f; done; printf inside > file
    ln -s ${outside} out1; ln -s /proc/self out2; ln -s ${outside}/f out3; ln -s /proc/1/root${outside} out4
    ln -s ../../../../../../..${outside} out5; ln -s /proc/self/environ out6
    ln -s ${outside} /tmp/race-out; ln -s ${outside} /mnt/user-data/outputs/out`);
  return (await send('GET', '/files/archive?path=given')).body;
}

/** Sends all calls, and gathers what they showed that was not made inside. */
async function race(all: readonly Act[]): Promise<{
  readonly leaks: readonly string[];
  readonly statuses: ReadonlyMap<string, number>;
}> {
  const byNumber = all.flatMap((act) => Array.from({ length: act.share }, () => act));
  const leaks: string[] = [];
  const statuses = new Map<string, number>();
  let next = 0;
  const client = async (): Promise<void> => {
    while (next < CALLS) {
      const number = next;
      next += 1;
      const act = byNumber[(number * 37) % byNumber.length];
      if (act === undefined) continue;
      const { status, body } = await act.call(number);
      const key = `${act.name} ${status < 400 ? 'done' : status < 500 ? 'refused' : status}`;
      statuses.set(key, (statuses.get(key) ?? 0) + 1);
      if (body.includes(CANARY)) leaks.push(`${act.name} showed the canary`);
      if (status !== 200) continue;
      for (const text of act.texts(body)) if (!INSIDE.test(text)) leaks.push(`${act.name}: ${text.slice(0, 100)}`);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, client));
  return { leaks, statuses };
}

describe(`links that are exchanged, ${lane}`, () => {
  it(`let no call out of ${CALLS}`, { timeout: within(900_000) }, async () => {
    const archive = await prepare();
    const before = snapshot(outside);
    const attacker = await session.execs.start({ argv: ['python3', 'exchange.py', ...PAIRS] });
    const { leaks, statuses } = await race(acts(archive));
    expect((await session.execs.get(attacker.exec_id)).state).toBe('running');
    await session.execs.kill(attacker.exec_id);
    expect(leaks).toEqual([]);
    expect(snapshot(outside)).toEqual(before);
    // The race was one: of every call some came to a place inside and some to a link.
    for (const name of ['view', 'create', 'replace']) {
      expect(statuses.get(`${name} done`) ?? 0, `${name} done`).toBeGreaterThan(CALLS / 200);
      expect(statuses.get(`${name} refused`) ?? 0, `${name} refused`).toBeGreaterThan(CALLS / 200);
    }
    for (const key of statuses.keys()) expect(key).toMatch(/(?:done|refused)$/);
    for (const root of ['/mnt/user-data/uploads', '/mnt/skills']) expect(await sh(`ls -A ${root}`)).toBe('');
    for (const name of readdirSync(stored, { recursive: true, encoding: 'utf8' })) {
      const path = join(stored, name);
      if (statSync(path).isFile()) expect(readFileSync(path).includes(CANARY), name).toBe(false);
    }
  });
});
