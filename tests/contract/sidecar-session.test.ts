/** Skills, notes and tool calls of a session over a real runner. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readSettings, type Session, type SidecarSettings } from '@boxkite/sidecar/app';
import { lane, within } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SessionClient } from './support/session-client.ts';
import { SessionHost } from './support/sessions.ts';

interface Failure {
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly details: Readonly<Record<string, unknown>>;
  };
}

interface Ensured {
  readonly status: string;
  readonly changed: boolean;
  readonly skills_rev: string;
  readonly skills_injected: number;
  readonly files_written: number;
}

const LONG = within(120_000);
const SETTINGS = readSettings({});
const TREE = "cd /mnt/skills && find . -mindepth 1 -printf '%p %y %m\\n' | sort";

let host: SessionHost;
let made = 0;
const clients = new AsyncDisposableStack();

beforeAll(async () => {
  host = await SessionHost.start();
}, LONG);

afterAll(async () => {
  await clients.disposeAsync();
  await host[Symbol.asyncDispose]();
});

async function clientOf(session: Session): Promise<SessionClient> {
  return clients.use(await SessionClient.open(session));
}

async function client(settings: SidecarSettings = SETTINGS): Promise<SessionClient> {
  made += 1;
  return clientOf(await host.open(`session-${made}`, {}, settings));
}

/** The session of the last client, as the next process has it. */
async function restarted(before: SessionClient): Promise<SessionClient> {
  await before.session.close();
  return clientOf(await host.open(`session-${made}`));
}

function skill(slug: string, files: Readonly<Record<string, string>>) {
  return {
    instance_slug: slug,
    display_name: slug,
    files: Object.entries(files).map(([path, content]) => ({ path, content })),
  };
}

describe('skills', () => {
  it('are written for reading alone, and only when they are others', { timeout: LONG }, async () => {
    const one = await client();
    const skills = [
      skill('/one/', { 'SKILL.md': '# One', '/tools/run.py': 'print(1)' }),
      skill('two/nested', { a: 'A\r\n' }),
      skill('empty', {}),
    ];
    const first = await one.post<Ensured>('/ensure-skills', { skills });
    expect(first).toMatchObject({ status: 'updated', changed: true, skills_injected: 3, files_written: 3 });
    expect(first.skills_rev).toMatch(/^[0-9a-f]{64}$/);
    expect((await one.sh(TREE)).trim().split('\n')).toEqual([
      './empty d 555',
      './one d 555',
      './one/SKILL.md f 444',
      './one/tools d 555',
      './one/tools/run.py f 444',
      './two d 555',
      './two/nested d 555',
      './two/nested/a f 444',
    ]);
    expect(
      await one.sh(
        'cat /mnt/skills/one/SKILL.md; python3 /mnt/skills/one/tools/run.py; od -c /mnt/skills/two/nested/a | head -1',
      ),
    ).toBe('# One1\n0000000   A  \\r  \\n\n');
    const again = await one.post<Ensured>('/inject-skills', { skills: [...skills].reverse(), skills_rev: null });
    expect(again).toEqual({
      status: 'unchanged',
      changed: false,
      skills_rev: first.skills_rev,
      skills_injected: 0,
      files_written: 0,
    });
    expect((await one.call('GET', '/health')).json).toMatchObject({ skills_rev: first.skills_rev });
  });

  it('can not be changed by a command', { timeout: LONG }, async () => {
    const one = await client();
    await one.post('/ensure-skills', { skills: [skill('one', { a: 'A' })], skills_rev: 'r1' });
    const attempts = [
      'echo x > /mnt/skills/one/a',
      'chmod 777 /mnt/skills/one',
      'mkdir /mnt/skills/x',
      'rm -rf /mnt/skills/one',
      'mv /mnt/skills/one /mnt/skills/two',
    ];
    for (const attempt of attempts) await one.sh(`! { ${attempt}; } 2>/dev/null`);
    expect(await one.sh('cat /mnt/skills/one/a')).toBe('A');
  });

  it('give way to the next set whole, where names become others and files become directories', {
    timeout: LONG,
  }, async () => {
    const one = await client();
    await one.post('/ensure-skills', {
      skills: [skill('one', { a: 'A', b: 'B' }), skill('two', { x: 'X' })],
      skills_rev: 'r1',
    });
    const next = await one.post<Ensured>('/ensure-skills', {
      skills: [skill('one', { 'a/deep': 'D' }), skill('three', { y: 'Y' })],
      skills_rev: 'r2',
    });
    expect(next).toMatchObject({ status: 'updated', skills_rev: 'r2', skills_injected: 2, files_written: 2 });
    expect(await one.sh('find /mnt/skills -mindepth 1 -type f | sort | xargs; ls -A /mnt/skills | xargs')).toBe(
      '/mnt/skills/one/a/deep /mnt/skills/three/y\none three\n',
    );
    await one.post('/ensure-skills', { skills: [], skills_rev: 'r3' });
    expect(await one.sh('ls -A /mnt/skills')).toBe('');
  });

  it('of calls at the same time are one of the sets, never a mixture', { timeout: LONG }, async () => {
    const one = await client();
    const names = Array.from({ length: 20 }, (_, n) => `${n}`);
    const set = (n: string) => [
      skill('shared', Object.fromEntries(names.map((name) => [name, n]))),
      skill(`own-${n}`, { f: n }),
    ];
    const all = await Promise.all(
      names.map((n) => one.post<Ensured>('/ensure-skills', { skills: set(n), skills_rev: n })),
    );
    expect(all.map(({ status }) => status)).toEqual(names.map(() => 'updated'));
    const { json } = await one.call<{ skills_rev: string }>('GET', '/health');
    const rev = json.skills_rev;
    expect(await one.sh('ls -A /mnt/skills | xargs; cat /mnt/skills/shared/* | fold -w2 | sort -u')).toMatch(
      new RegExp(`^own-${rev} shared\n`),
    );
    expect(await one.sh('cat /mnt/skills/shared/0 /mnt/skills/shared/19 /mnt/skills/own-*/f')).toBe(rev.repeat(3));
  });

  it.each([
    ['', 'a'],
    [' / ', 'a'],
    ['..', 'a'],
    ['a/../b', 'a'],
    ['a//b', 'a'],
    ['.boxkite-x', 'a'],
    ['a\\b', 'a'],
    ['ok', ''],
    ['ok', '/'],
    ['ok', '../up'],
    ['ok', 'a/../../up'],
    ['ok', 'a/./b'],
    ['ok', 'x'.repeat(300)],
  ])('with the slug %j and the file %j are refused, and nothing is written', async (slug, path) => {
    const one = await client();
    await one.post('/ensure-skills', { skills: [skill('kept', { a: 'A' })], skills_rev: 'r1' });
    const body = { skills: [skill('other', { b: 'B' }), skill(slug, { [path]: 'x' })], skills_rev: 'r2' };
    const { status, json } = await one.call<Failure>('POST', '/ensure-skills', body);
    expect([status, json.error.code]).toEqual([400, 'bad_request']);
    expect(await one.sh('ls -A /mnt/skills; cat /mnt/skills/kept/a')).toBe('kept\nA');
    expect((await one.call('GET', '/health')).json).toMatchObject({ skills_rev: 'r1' });
  });

  it.each([
    [[skill('a', { x: '1' }), skill('a', { y: '1' })]],
    [[skill('a', { x: '1', 'x/y': '2' })]],
    [[skill('a', { b: '1' }), skill('a/b', { y: '1' })]],
  ])('that exclude each other are refused: %j', async (skills) => {
    const one = await client();
    expect((await one.call('POST', '/ensure-skills', { skills })).status).toBe(400);
    expect(await one.sh('ls -A /mnt/skills')).toBe('');
  });

  it('stay over a restart and for their session, and are gone for every other one', { timeout: LONG }, async () => {
    const one = await client();
    const files = 'ls -A /mnt/skills | xargs';
    const rev = async (of: SessionClient) =>
      (await of.call<{ skills_rev: string | null }>('GET', '/health')).json.skills_rev;
    // Put before anybody has a name.
    await one.post('/ensure-skills', { skills: [skill('before', { a: 'A' })], skills_rev: 'r0' });
    await one.post('/configure', { session_id: 'a' });
    expect([await one.sh(files), await rev(one)]).toEqual(['\n', null]);
    await one.post('/ensure-skills', { skills: [skill('mine', { a: 'A' })], skills_rev: 'r1' });
    const two = await restarted(one);
    expect([await two.sh(files), await rev(two)]).toEqual(['mine\n', 'r1']);
    expect(
      (await two.post<Ensured>('/ensure-skills', { skills: [skill('mine', { a: 'A' })], skills_rev: 'r1' })).status,
    ).toBe('unchanged');
    await two.post('/configure', { session_id: 'a' });
    expect([await two.sh(files), await rev(two)]).toEqual(['mine\n', 'r1']);
    await two.post('/configure', { session_id: null });
    expect([await two.sh(files), await rev(two)]).toEqual(['\n', null]);
    await two.post('/ensure-skills', { skills: [skill('nobody', { a: 'A' })], skills_rev: 'r2' });
    await two.post('/configure', { session_id: null });
    expect([await two.sh(files), await rev(two)]).toEqual(['\n', null]);
    await two.post('/ensure-skills', { skills: [skill('mine', { a: 'A' })], skills_rev: 'r3' });
    await two.post('/configure', { session_id: 'b' });
    expect([await two.sh(files), await rev(two)]).toEqual(['\n', null]);
  });

  it('that do not fit leave the last set as it was', { timeout: LONG }, async () => {
    made += 1;
    const one = await clientOf(await host.open(`session-${made}`, { workspaceMb: 8 }, SETTINGS));
    await one.post('/ensure-skills', { skills: [skill('kept', { a: 'A' })], skills_rev: 'r1' });
    const { status, json } = await one.call<Failure>('POST', '/ensure-skills', {
      skills: [skill('big', { a: 'x'.repeat(9_000_000) })],
      skills_rev: 'r2',
    });
    expect([status, json.error.code]).toEqual([507, 'no_space']);
    expect(await one.sh('cat /mnt/skills/kept/a')).toBe('A');
    expect(
      (await one.post<Ensured>('/ensure-skills', { skills: [skill('kept', { a: 'B' })], skills_rev: 'r3' })).status,
    ).toBe('updated');
    expect(await one.sh('ls -A /mnt/skills; cat /mnt/skills/kept/a')).toBe('kept\nB');
  });
});

describe('a wipe', () => {
  it('covers /tmp and everything below it, closed or not', { timeout: LONG }, async () => {
    const one = await client();
    await one.post('/configure', { session_id: 'a' });
    await one.post('/file-create', { path: '/tmp/made/by/us', content: 'x' });
    await one.sh(
      'mkdir -p /tmp/a/b/c && printf x > /tmp/a/b/c/f && chmod 000 /tmp/a/b/c && chmod 500 /tmp/a; printf x > /tmp/.hidden',
    );
    await one.post('/configure', { session_id: 'b' });
    expect(await one.sh('ls -A /tmp /workspace /mnt/user-data/* /mnt/skills | grep -v :$ | xargs')).toBe('\n');
  });
});

describe('scratch memory', () => {
  it('keeps, lists, finds and forgets', async () => {
    const one = await client();
    expect(await one.post('/scratch/set', { key: 'b', value: 'zwei ☃' })).toEqual({
      key: 'b',
      bytes_stored: 8,
      keys: 1,
    });
    expect(await one.post('/scratch/set', { key: 'a', value: '' })).toEqual({ key: 'a', bytes_stored: 0, keys: 2 });
    expect((await one.call('GET', '/scratch/get?key=b')).json).toEqual({ key: 'b', value: 'zwei ☃', found: true });
    expect((await one.call('GET', '/scratch/get?key=none')).json).toEqual({ key: 'none', value: null, found: false });
    expect((await one.call('GET', '/scratch/list')).json).toEqual({
      entries: [
        { key: 'a', bytes: 0 },
        { key: 'b', bytes: 8 },
      ],
      keys: 2,
      total_bytes: 10,
      max_keys: 256,
      max_total_bytes: 1_048_576,
    });
    expect(await one.post('/scratch/delete', { key: 'a' })).toEqual({ key: 'a', deleted: true, keys: 1 });
    expect(await one.post('/scratch/delete', { key: 'a' })).toEqual({ key: 'a', deleted: false, keys: 1 });
  });

  it('is bounded exactly, and a refused note changes nothing', { timeout: LONG }, async () => {
    const one = await client();
    const set = async (key: string, value: string): Promise<number> =>
      (await one.call('POST', '/scratch/set', { key, value })).status;
    for (const key of ['', '   ', 'x'.repeat(257)]) expect(await set(key, 'x')).toBe(400);
    expect(await set('😀'.repeat(256), 'x')).toBe(200);
    expect([await set('v', 'x'.repeat(65_537)), await set('v', `${'x'.repeat(65_534)}☃`)]).toEqual([413, 413]);
    expect(await set('v', `${'x'.repeat(65_533)}☃`)).toBe(200);
    expect(await set('\ud800', 'x')).toBe(422);
    await one.post('/configure', {});
    // 16 values of 65,536 bytes are all there is room for, were it not for their keys.
    for (let n = 0; n < 15; n += 1) expect(await set(`${n}`.padStart(2, '0'), 'x'.repeat(65_536))).toBe(200);
    const room = 1_048_576 - 15 * 65_538 - 2;
    expect([await set('15', 'x'.repeat(room + 1)), await set('15', 'x'.repeat(room)), await set('1', '')]).toEqual([
      413, 200, 413,
    ]);
    expect((await one.call('GET', '/scratch/list')).json).toMatchObject({ keys: 16, total_bytes: 1_048_576 });
    const two = await restarted(one);
    expect((await two.call('GET', '/scratch/list')).json).toMatchObject({ keys: 16, total_bytes: 1_048_576 });
  });

  it('has room for 256 keys, and for others in their place', { timeout: LONG }, async () => {
    const one = await client();
    const all = await Promise.all(
      Array.from(
        { length: 300 },
        async (_, n) => (await one.call('POST', '/scratch/set', { key: `k${n}`, value: `${n}` })).status,
      ),
    );
    expect([all.filter((status) => status === 200).length, all.filter((status) => status === 409).length]).toEqual([
      256, 44,
    ]);
    const kept = all.indexOf(200);
    expect(await one.post('/scratch/set', { key: `k${kept}`, value: 'over' })).toMatchObject({ keys: 256 });
    await one.post('/scratch/delete', { key: `k${kept}` });
    expect(await one.post('/scratch/set', { key: 'new', value: 'x' })).toMatchObject({ keys: 256 });
  });

  it('stays over a restart, and is gone with its use, for good', async () => {
    const one = await client();
    await one.post('/scratch/set', { key: 'k', value: 'of tenant a' });
    const two = await restarted(one);
    expect((await two.call('GET', '/scratch/get?key=k')).json).toMatchObject({ value: 'of tenant a' });
    await two.post('/configure', { session_id: 'b' });
    expect((await two.call('GET', '/scratch/list')).json).toMatchObject({ keys: 0, total_bytes: 0 });
    const three = await restarted(two);
    expect((await three.call('GET', '/scratch/list')).json).toMatchObject({ keys: 0 });
  });

  it('is gone when the budget is spent', async () => {
    const one = await client({ ...SETTINGS, budget: { execs: 2, seconds: 0 } });
    await one.post('/scratch/set', { key: 'k', value: 'x' });
    await one.sh('true');
    await one.sh('true');
    expect((await one.call('GET', '/scratch/list')).json).toMatchObject({ keys: 1 });
    expect((await one.call('POST', '/exec', { command: 'true' })).status).toBe(403);
    expect((await one.call('GET', '/scratch/list')).json).toMatchObject({ keys: 0 });
  });

  it('is in no file of the sandbox or of the session', async () => {
    const one = await client();
    const mark = `mark-${Math.random()}`;
    await one.post('/scratch/set', { key: 'k', value: mark });
    expect(await one.sh(`grep -rl ${mark} /workspace /tmp /mnt 2>/dev/null | wc -l`)).toBe('0\n');
  });
});

describe('a tool call', () => {
  let backend: Server;
  let url: string;
  let answer: (request: IncomingMessage, response: ServerResponse, body: string) => void;

  beforeAll(async () => {
    backend = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => answer(request, response, Buffer.concat(parts).toString()));
    });
    await new Promise<void>((resolve) => {
      backend.listen(0, '127.0.0.1', resolve);
    });
    url = `http://127.0.0.1:${(backend.address() as AddressInfo).port}/`;
  });

  afterAll(() => {
    backend.closeAllConnections();
    backend.close();
  });

  it("is made in the session's own name, whatever the caller says", async () => {
    const one = await client({ ...SETTINGS, backendUrl: url });
    const seen: unknown[] = [];
    answer = ({ method, url: path, headers }, response, body) => {
      seen.push(method, path, headers['x-sidecar-auth-token'] ?? headers.authorization ?? null, JSON.parse(body));
      response.end('{"result":[1,"two"]}');
    };
    await one.post('/configure', { session_id: 'mine' });
    const body = { tool_name: 't', arguments: { a: 1, session_id: 'in arguments' }, session_id: 'another' };
    expect(await one.post('/tool-call', body)).toEqual({ result: [1, 'two'] });
    expect(seen).toEqual([
      'POST',
      '/api/v1/internal/tool-call',
      null,
      { tool_name: 't', arguments: { a: 1, session_id: 'in arguments' }, session_id: 'mine' },
    ]);
    for (const session_id of [7, { a: 1 }, null, ['x']]) {
      seen.length = 0;
      await one.post('/tool-call', { tool_name: 't', session_id });
      expect(seen.at(-1)).toEqual({ tool_name: 't', arguments: {}, session_id: 'mine' });
    }
  });

  it.each<[string, (response: ServerResponse) => void, RegExp]>([
    ['a redirect', (response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(), /status 302/],
    ['a failure', (response) => response.writeHead(500).end('internal words'), /status 500/],
    ['no JSON', (response) => response.end('<html>'), /no JSON/],
    ['a bomb', (response) => response.end(`[${'[],'.repeat(300_000)}1]`), /more than 200000 arrays/],
    ['too much', (response) => response.end(`"${'x'.repeat(17 * 1024 * 1024)}"`), /larger than/],
    [
      'a cut answer',
      (response) => response.writeHead(200, { 'content-length': '100' }).end('{') && response.destroy(),
      /reached/,
    ],
  ])('whose backend answers with %s has its failure in the answer', async (_what, how, words) => {
    const one = await client({ ...SETTINGS, backendUrl: url });
    answer = (_request, response) => how(response);
    const { status, json } = await one.call<{ error: string }>('POST', '/tool-call', { tool_name: 't' });
    expect(status).toBe(200);
    expect(json.error).toMatch(words);
    expect(json.error).not.toMatch(/127\.0\.0\.1|internal words/);
  });

  it.each<[string, string]>([
    ['nested deeply', `${'['.repeat(150_000)}${']'.repeat(150_000)}`],
    ['a text', '"words"'],
    ['nothing', 'null'],
    ['a number that is more exact than ours', '[12345678901234567890.5]'],
    ['with names of our own kind', '{"__proto__":{"a":1},"toJSON":2}'],
  ])('whose backend answers %s hands it on as it is', async (_what, json) => {
    const one = await client({ ...SETTINGS, backendUrl: url });
    answer = (_request, response) => response.end(json);
    const found = await one.text('POST', '/tool-call', { tool_name: 't' });
    expect(found).toEqual({ status: 200, type: 'application/json; charset=utf-8', text: json });
  });

  it('without a backend, or with one that is away, has its failure in the answer', async () => {
    const none = await client();
    expect(await none.post('/tool-call', { tool_name: 't' })).toEqual({
      error: 'no backend for tool calls is configured (BACKEND_URL)',
    });
    const away = await client({ ...SETTINGS, backendUrl: 'http://127.0.0.1:1' });
    expect(await away.post('/tool-call', { tool_name: 't' })).toEqual({ error: 'the backend can not be reached' });
  });
});

describe(`what a command leaves on and in its roots, ${lane}`, () => {
  const ROOTS = '/workspace /mnt/user-data/outputs /tmp';
  const LOOK = `for root in ${ROOTS}; do stat -c '%a %U %n' $root; find $root -mindepth 1; done; python3 -c '
import os
for root in "${ROOTS}".split(): print(os.listxattr(root))
'`;

  it.each([
    ['a name that is no text', "open(b'/workspace/\\xff\\xfe', 'w').write('x'); os.mkdir(b'/tmp/\\xff')"],
    ['a name of a newline', "open('/workspace/\\n', 'w').write('x')"],
    ['closed roots', "[os.chmod(root, 0) for root in '/workspace /mnt/user-data/outputs /tmp'.split()]"],
    ['roots of other modes', "[os.chmod(root, 0o7707) for root in '/workspace /mnt/user-data/outputs /tmp'.split()]"],
    [
      'closed directories',
      "os.makedirs('/workspace/a/b/c'); os.chmod('/workspace/a/b', 0); os.chmod('/workspace/a', 0)",
    ],
    ['a path that is too long', "[(os.mkdir('l' * 200), os.chdir('l' * 200)) for _ in range(30)]"],
    [
      'links to roots',
      "os.symlink('/', '/tmp/a'); os.symlink('/workspace', '/tmp/b'); os.symlink('/tmp', '/workspace/c')",
    ],
    ['attributes of a root', "attribute('user.note', b'of the last use')"],
    [
      'an access list of a root',
      String.raw`attribute('system.posix_acl_default', b'\2\0\0\0' + b''.join(x.to_bytes(2, 'little') + (7).to_bytes(2, 'little') + b'\xff' * 4 for x in (1, 4, 32)))`,
    ],
  ])('is gone with its use, and keeps no other from beginning: %s', async (_what, code) => {
    const one = await client();
    const fresh = await one.sh(LOOK);
    const attribute = `def attribute(name, value):
    for root in '${ROOTS}'.split():
        try: os.setxattr(root, name, value)
        except OSError as error: print(error)
`;
    const left = await one.post('/exec', {
      command: 'python3 -c "$code"',
      env: { code: `import os\n${attribute}${code}` },
    });
    expect(left).toMatchObject({ exit_code: 0, stderr: '' });
    await one.post('/configure', { session_id: 'next' });
    expect(await one.sh(LOOK)).toBe(fresh);
    expect(fresh).toContain('1777 sandbox /tmp');
  });
});

it('files of the next use are not to be had before it has begun', { timeout: LONG }, async () => {
  const one = await client();
  await one.post('/file-create', { path: '/workspace/a', content: 'of the first' });
  const begun = Promise.withResolvers<void>();
  const may = Promise.withResolvers<void>();
  one.session.services.scratch.begin = async () => {
    begun.resolve();
    await may.promise;
  };
  const configuring = one.post('/configure', { session_id: 'next' });
  await begun.promise;
  try {
    for (const [path, body] of [
      ['/file-create', { path: '/workspace/late', content: 'x' }],
      ['/view', { path: '/workspace' }],
      ['/ls', { path: '/' }],
      ['/files/mkdir', { path: '/workspace/late' }],
    ] as const) {
      const { status, json } = await one.call<Failure>('POST', path, body);
      expect([path, status, json.error.code]).toEqual([path, 409, 'generation_gone']);
    }
  } finally {
    may.resolve();
  }
  await configuring;
});
