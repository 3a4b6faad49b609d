/** The reference's file calls over a real runner: its wire, and where it loses bytes, edits or time, ours. */
import { createHash, randomBytes } from 'node:crypto';
import { readSettings, type Session } from '@boxkite/sidecar/app';
import { lane, sleep, within } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ServedSessions } from './support/served-sessions.ts';
import { SessionClient } from './support/session-client.ts';

let served: ServedSessions;
let session: Session;
const TOKEN = randomBytes(32).toString('base64url');
const SECRET = 'correct-horse-battery-staple';
const LONG = within(120_000);

beforeAll(async () => {
  served = await ServedSessions.start();
  session = await served.host.open('files');
  served.registry.add(TOKEN, session);
  await put('crlf', 'a\r\nb\rc\n');
  await shell('mkdir dir; mkfifo pipe; printf x > closed; chmod 444 closed');
}, LONG);

afterAll(async () => {
  served.closing.abort();
  // Clients keep connections of calls that they have left, on which nothing was ever asked.
  served.app.server.closeAllConnections();
  await served[Symbol.asyncDispose]();
});

interface Listed {
  readonly path: string;
  readonly is_dir: boolean;
  readonly size: number;
  readonly modified_at: string;
}

interface Answer {
  readonly error: { readonly code: string; readonly message: string; readonly hint: string };
  readonly path: string;
  readonly size: number;
  readonly created: boolean;
  readonly content: string;
  readonly lines: number;
  readonly is_directory: boolean;
  readonly truncated: boolean;
  readonly sha256: string;
  readonly replaced: boolean;
  readonly occurrences: number;
  readonly hint?: string;
  readonly timed_out: boolean;
  readonly changes: readonly { readonly path: string; readonly event: string }[];
  readonly next_cursor: string | null;
  /** Of a directory that is shown they are names. */
  readonly entries: readonly Listed[];
  readonly matches: readonly (Listed & {
    readonly line: number;
    readonly text: string;
    readonly line_truncated?: boolean;
  })[];
}

type Headers = Readonly<Record<string, string>>;

async function send(path: string, body: object | string, headers: Headers = {}, signal?: AbortSignal) {
  const answer = await fetch(served.base + path, {
    method: 'POST',
    headers: { 'x-sidecar-auth-token': TOKEN, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
  return { status: answer.status, json: (await answer.json()) as Answer, etag: answer.headers.get('etag') };
}

async function shell(command: string): Promise<string> {
  const { record, stdout, stderr } = await session.execs.run({ argv: ['sh', '-c', command], timeout_ms: 60_000 });
  expect(record.exit_code, Buffer.from(stderr).toString()).toBe(0);
  return Buffer.from(stdout).toString();
}

async function put(path: string, content: string | Uint8Array, mode?: number): Promise<void> {
  await session.files.write(path, Buffer.from(content), mode === undefined ? {} : { mode });
}

async function bytesOf(path: string): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of session.files.read(path)) parts.push(part);
  return Buffer.concat(parts);
}

const codes = async (calls: readonly Promise<Awaited<ReturnType<typeof send>>>[]) =>
  (await Promise.all(calls)).map(({ status, json }) => [status, json.error?.code]);
const sha = (data: string | Uint8Array) => createHash('sha256').update(data).digest('hex');

describe(`POST /file-create, ${lane}`, () => {
  it('writes what it is given, byte for byte, with its directories', async () => {
    const content = 'a\r\nb\rc\n\0\u{1f600}\u00e9\ufeff';
    const { status, json, etag } = await send('/file-create', { path: 'made/deep/er.txt', content, description: 'x' });
    expect([status, json]).toEqual([
      200,
      {
        path: '/workspace/made/deep/er.txt',
        size: Buffer.byteLength(content),
        created: true,
        sha256: sha(content),
      },
    ]);
    expect(etag).toBe(`"${sha(content)}"`);
    expect((await bytesOf('made/deep/er.txt')).toString()).toBe(content);
    const owner = await shell('stat -c "%u %a" made made/deep made/deep/er.txt | sort -u');
    expect(owner).toBe('1001 644\n1001 755\n');
    expect((await send('/file-create', { path: '/outputs/o', content: '' })).json).toMatchObject({
      path: '/mnt/user-data/outputs/o',
      size: 0,
    });
  });

  it('replaces a file as a whole and keeps its mode', async () => {
    await put('script', 'old', 0o755);
    await shell('ln -s script link; ln script hard');
    await send('/file-create', { path: 'link', content: 'new' });
    expect(await shell('cat script; readlink link; stat -c %a script; cat hard')).toBe('newscript\n755\nold');
  });

  it('is seen whole or not at all, whoever reads meanwhile', async () => {
    const [one, two] = ['1'.repeat(3_000_000), '2'.repeat(3_000_000)];
    await put('atomic', one);
    let over = false;
    const seen = new Set<string>();
    const reading = (async () => {
      while (!over) {
        const found = (await bytesOf('atomic')).toString();
        seen.add(`${found.length} ${found[0]} ${new Set([found[0], found.at(-1)]).size}`);
      }
    })();
    for (let round = 0; round < 6; round += 1)
      await send('/file-create', { path: 'atomic', content: round % 2 ? one : two });
    over = true;
    await reading;
    expect([...seen].sort()).toEqual(['3000000 1 1', '3000000 2 1'].filter((line) => seen.has(line)));
  });

  it('replaces only what its caller has read, if that is asked for', async () => {
    const path = 'guarded';
    expect((await send('/file-create', { path, content: '1' }, { 'if-none-match': '*' })).status).toBe(200);
    const again = await send('/file-create', { path, content: '2' }, { 'if-none-match': '*' });
    expect([again.status, again.json.error.code]).toEqual([412, 'file_changed']);
    const stale = await send('/file-create', { path, content: '2' }, { 'if-match': `"${sha('other')}"` });
    expect([stale.status, (await bytesOf(path)).toString()]).toEqual([412, '1']);
    const { etag } = await send('/view', { path });
    const next = await send('/file-create', { path, content: '2' }, { 'if-match': String(etag) });
    expect([next.status, (await bytesOf(path)).toString()]).toEqual([200, '2']);
    const missing = await send('/file-create', { path: 'nowhere', content: '' }, { 'if-match': `"${sha('')}"` });
    expect(missing.status).toBe(412);
    expect((await send('/file-create', { path, content: '' }, { 'if-match': '"short"' })).status).toBe(422);
    // Calls that do not look at conditions take none.
    const present = await send('/present-files', { filepaths: [path] }, { 'if-match': String(etag) });
    expect([present.status, present.json.error.code]).toEqual([422, 'invalid_request']);
  });

  it('refuses what it can not do with the reason', async () => {
    await shell('ln -s /etc/passwd out');
    const create = (path: string) => send('/file-create', { path, content: 'x' });
    const found = await codes([
      create('/etc/passwd'),
      create('../../etc/passwd'),
      create('a\0b'),
      create(' '),
      create('/skills/x'),
      create('/mnt/user-data/uploads/x'),
      create('dir'),
      create('/workspace'),
      create('pipe'),
      create('closed'),
      create(`${'n'.repeat(300)}`),
      create('closed/below'),
      send('/file-create', { path: 'x' }),
      send('/file-create', { path: 'x', content: '\ud800' }),
    ]);
    expect(found).toEqual([
      [400, 'bad_request'],
      [400, 'bad_request'],
      [400, 'bad_request'],
      [400, 'bad_request'],
      [403, 'read_only'],
      [403, 'read_only'],
      [409, 'is_directory'],
      [409, 'is_directory'],
      [409, 'not_a_file'],
      [403, 'permission_denied'],
      [422, 'name_too_long'],
      [409, 'not_a_directory'],
      [422, 'invalid_request'],
      [422, 'invalid_request'],
    ]);
    // A link that leads out leads nowhere.
    expect((await create('out')).status).toBeGreaterThanOrEqual(400);
    expect(await shell('head -c 4 /etc/passwd')).not.toBe('x');
    const { json } = await send('/file-create', { path: 'x', content: 5, secret: 'never-shown' });
    expect(JSON.stringify(json)).not.toContain('never-shown');
  });

  it(
    'takes ten million characters, however they are written, and no more',
    async () => {
      const most = 10_485_760;
      const escaped = `{"path":"big","content":"${'\\u0061'.repeat(most)}"}`;
      expect((await send('/file-create', escaped)).json.size).toBe(most);
      const astral = await send('/file-create', { path: 'astral', content: '\u{1f600}'.repeat(most) });
      expect([astral.status, astral.json.size]).toEqual([200, 4 * most]);
      const more = await send('/file-create', { path: 'more', content: 'a'.repeat(most + 1) });
      expect([more.status, more.json.error.code]).toEqual([422, 'invalid_request']);
      const length = 6 * most + 64 * 1024 + 1;
      const tooLong = await send('/file-create', `{"path":"p","content":"${' '.repeat(length)}"}`).catch(() => null);
      // Refused by its length: the answer may come before the client has sent it all.
      expect(tooLong === null || tooLong.status === 413).toBe(true);
      await shell('rm -f big astral');
    },
    LONG,
  );
});

describe(`POST /view, ${lane}`, () => {
  it('shows a text as it is', async () => {
    const { json, etag } = await send('/view', { path: './crlf' });
    expect(json).toEqual({
      content: 'a\r\nb\rc\n',
      lines: 3,
      is_directory: false,
      entries: null,
      truncated: false,
      sha256: sha('a\r\nb\rc\n'),
    });
    expect(etag).toBe(`"${json.sha256}"`);
    await put('empty', '');
    expect((await send('/view', { path: 'empty' })).json).toMatchObject({ content: '', lines: 1 });
    await put('bom', '\ufeffx');
    expect((await send('/view', { path: 'bom' })).json.content).toBe('\ufeffx');
  });

  it.each([
    [[1, 2], 'one\ntwo'],
    [[2, 3], 'two\nthree'],
    [[3, -1], 'three\n'],
    [[2, -1], 'two\nthree\n'],
    [[0, 1], 'one'],
    [[-5, 1], 'one'],
    [[3, 99], 'three\n'],
    [[4, 4], ''],
    [[5, 9], ''],
    [[3, 2], ''],
    [['2', '2'], 'two'],
    [[1], 'one\ntwo\nthree\n'],
    [[1, 2, 3], 'one\ntwo\nthree\n'],
    [null, 'one\ntwo\nthree\n'],
  ])('shows lines %j', async (view_range, content) => {
    await put('lines', 'one\ntwo\nthree\n');
    const { json } = await send('/view', { path: 'lines', view_range });
    expect([json.content, json.lines]).toEqual([content, 4]);
  });

  it('shows the names of a directory', async () => {
    await shell('mkdir -p names; touch names/b names/.a; ln -s /etc/passwd names/c');
    expect((await send('/view', { path: 'names' })).json).toEqual({
      content: '',
      lines: 0,
      is_directory: true,
      entries: ['.a', 'b', 'c'],
    });
  });

  it('shows the first hundred thousand characters and says so', async () => {
    const text = 'x'.repeat(99).concat('\n').repeat(2000);
    await put('long', text);
    const { json } = await send('/view', { path: 'long' });
    expect([json.truncated, json.lines, json.sha256]).toEqual([true, 2001, sha(text)]);
    expect(json.content.slice(0, 102_400)).toBe(text.slice(0, 102_400));
    expect(json.content.slice(102_400)).toMatch(/^\n\[\.\.\. .*view_range/);
    const some = await send('/view', { path: 'long', view_range: [1500, 1501] });
    expect([some.json.truncated, some.json.content.length]).toEqual([false, 199]);
  });

  it('refuses what is too large before it reads it, and what is no text', async () => {
    await shell(
      'truncate -s 26214401 large; truncate -s 26214400 fits; printf "a\\377b" > binary; install -m 000 /dev/null shut',
    );
    await shell('ln -sf /proc/self/environ environ; ln -sf loop loop');
    await shell('python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\'sock\')" || true');
    const view = (path: string) => send('/view', { path });
    const began = performance.now();
    expect(
      await codes([
        view('large'),
        view('binary'),
        view('missing'),
        view('shut'),
        view('/proc/self/environ'),
        view('environ'),
        view('pipe'),
        view('sock'),
        view('loop'),
        view('pipe/x'),
        view('a\0b'),
      ]),
    ).toEqual([
      [422, 'file_over_limit'],
      [422, 'not_text'],
      [404, 'file_not_found'],
      [403, 'permission_denied'],
      [400, 'bad_request'],
      [404, 'file_not_found'],
      [409, 'not_a_file'],
      [409, 'not_a_file'],
      [422, 'too_many_links'],
      [409, 'not_a_directory'],
      [400, 'bad_request'],
    ]);
    expect(performance.now() - began).toBeLessThan(10_000);
    const fits = await view('fits');
    expect([fits.status, fits.json.lines, fits.json.truncated]).toEqual([200, 1, true]);
    const { json } = await view('large');
    expect(json.error.message).toMatch(/26214401.*26214400/);
  });

  it('answers at once while a hundred calls meet a pipe', async () => {
    const pipes = Array.from({ length: 100 }, async () => send('/view', { path: 'pipe' }));
    await put('beside', 'here');
    expect((await send('/view', { path: 'beside' })).json.content).toBe('here');
    expect(new Set((await Promise.all(pipes)).map(({ status }) => status))).toEqual(new Set([409]));
  });

  it('hides known values, and an edit beside one still finds its place', async () => {
    await session.execs.run({ argv: ['true'], secret_env: { KEY: SECRET } });
    const text = `user=me\nkey=${SECRET}\nend\n${'y'.repeat(102_380)}${SECRET}`;
    await put('config', text);
    const { json } = await send('/view', { path: 'config' });
    expect(json.content).not.toContain(SECRET.slice(0, 6));
    expect(json.sha256).toBe(sha(text));
    const mask = /^key=(.*)$/m.exec(json.content)?.[1] ?? '';
    expect(mask).toMatch(/^\[.*KEY\]$/);
    const masked = await send('/str-replace', { path: 'config', old_str: `key=${mask}\nend`, new_str: 'key=\nend' });
    expect([masked.status, masked.json.error.code]).toEqual([400, 'bad_request']);
    expect(masked.json.error.message).toContain(mask);
    const edit = await send('/str-replace', { path: 'config', old_str: 'user=me\n', new_str: 'user=you\n' });
    expect(edit.json.replaced).toBe(true);
    expect((await bytesOf('config')).toString()).toBe(text.replace('me', 'you'));
    const found = await send('/grep', { pattern: 'key=', path: 'config' });
    expect(found.json.matches[0]?.text).toBe(`key=${mask}`);
    // What is wrong with a pattern is said with the pattern in it.
    const wrong = await send('/grep', { pattern: `(${SECRET}`, path: 'config' });
    expect(JSON.stringify(wrong.json)).not.toContain(SECRET);
    // A search shows single lines of what has several.
    const lines = ['a-first-line-of-a-key', 'the-second-line-of-it'];
    await session.execs.run({ argv: ['true'], secret_env: { LINES: lines.join('\n') } });
    await put('key', `${lines.join('\n')}\n`);
    const second = await send('/grep', { pattern: 'second', path: 'key' });
    expect(second.json.matches.map(({ text: shown }: { text: string }) => shown)).toEqual(['[redacted:LINES.line-2]']);
    // The bytes themselves are never altered.
    const content = await fetch(`${served.base}/files/content?path=config`, {
      headers: { 'x-sidecar-auth-token': TOKEN },
    });
    expect(await content.text()).toContain(SECRET);
  });
});

describe(`POST /str-replace, ${lane}`, () => {
  const replace = (path: string, old_str: string, new_str: string, more: object = {}, headers: Headers = {}) =>
    send('/str-replace', { path, old_str, new_str, ...more }, headers);

  it('replaces one place, or all of them', async () => {
    await put('edit', 'one two two\n');
    const first = await replace('edit', 'one', '1');
    expect(first.json).toEqual({ path: '/workspace/edit', replaced: true, occurrences: 1, sha256: sha('1 two two\n') });
    const ambiguous = await replace('edit', 'two', '2');
    expect([ambiguous.status, ambiguous.json.error.code]).toEqual([400, 'bad_request']);
    expect(ambiguous.json.error.message).toMatch(/2 times.*unique/);
    expect((await replace('edit', 'two', '2', { replace_all: true })).json.occurrences).toBe(2);
    expect((await bytesOf('edit')).toString()).toBe('1 2 2\n');
    const none = await replace('edit', 'three', '3');
    expect([none.status, none.json.replaced, none.json.occurrences]).toEqual([200, false, 0]);
    await put('aaaa', 'aaaa');
    expect((await replace('aaaa', 'aa', 'b', { replace_all: true })).json.occurrences).toBe(2);
  });

  it('keeps every other byte, line ends, modes and links', async () => {
    const bytes = Buffer.concat([Buffer.from('a\r\nb\r\n'), Buffer.from([0xff, 0xfe, 0, 0x80]), Buffer.from('c\r\n')]);
    await put('bytes', bytes, 0o755);
    await shell('ln -sf bytes bytes-link');
    expect((await replace('bytes-link', 'b', 'B')).json.occurrences).toBe(1);
    expect((await bytesOf('bytes')).equals(Buffer.from(bytes.map((byte) => (byte === 98 ? 66 : byte))))).toBe(true);
    expect(await shell('stat -c %a bytes; readlink bytes-link')).toBe('755\nbytes\n');
    const lf = await replace('bytes', 'a\nB', 'x');
    expect([lf.json.replaced, lf.json.hint]).toEqual([false, expect.stringContaining('CRLF')]);
    await put('sealed', 'x=1\n', 0o444);
    expect((await replace('sealed', '1', '2')).json.replaced).toBe(true);
    expect(await shell('cat sealed; stat -c "%a %u" sealed')).toBe('x=2\n444 1001\n');
  });

  it('refuses what makes no sense', async () => {
    await shell('truncate -s 10485761 over');
    await put('small', 'x'.repeat(2000));
    expect(
      await codes([
        replace('small', '', 'y'),
        replace('small', '', 'y', { replace_all: true }),
        replace('over', 'x', 'y'),
        replace('missing', 'x', 'y'),
        replace('dir', 'x', 'y'),
        replace('pipe', 'x', 'y'),
        replace('/uploads/x', 'x', 'y'),
        replace('/skills/x', 'x', 'y'),
        replace('small', 'x', 'y'.repeat(100_000), { replace_all: true }),
      ]),
    ).toEqual([
      [400, 'bad_request'],
      [400, 'bad_request'],
      [422, 'file_over_limit'],
      [404, 'file_not_found'],
      [409, 'is_directory'],
      [409, 'not_a_file'],
      [403, 'read_only'],
      [403, 'read_only'],
      [422, 'file_over_limit'],
    ]);
    expect((await bytesOf('small')).length).toBe(2000);
  });

  it('loses no edit of thirty that come at once', async () => {
    await put('shared', Array.from({ length: 30 }, (_, at) => `line ${at}.\n`).join(''));
    const edits = Array.from({ length: 30 }, async (_, at) => replace('shared', `line ${at}.`, `done ${at}.`));
    expect(new Set((await Promise.all(edits)).map(({ json }) => json.occurrences))).toEqual(new Set([1]));
    expect((await bytesOf('shared')).toString()).toBe(Array.from({ length: 30 }, (_, at) => `done ${at}.\n`).join(''));
  });

  it(
    'never undoes what a command writes at the same time',
    async () => {
      await put('log', 'mark\n');
      const writer = shell(
        'i=0; while [ $i -lt 300 ]; do i=$((i+1)); { cat log; echo "w $i"; } > log.new && mv log.new log; done',
      );
      let at = 0;
      let isOver = false;
      void writer.finally(() => {
        isOver = true;
      });
      while (!isOver) {
        at += 1;
        const { status } = await replace('log', 'mark', 'mark', {});
        expect([200, 404, 409]).toContain(status);
      }
      await writer;
      expect(at).toBeGreaterThan(3);
      // Only the last line is sure: the command itself copies without a lock.
      expect((await bytesOf('log')).toString().trimEnd().split('\n').at(-1)).toBe('w 300');
    },
    LONG,
  );

  it('replaces only what its caller has read, if that is asked for', async () => {
    await put('guarded', 'a');
    const stale = await replace('guarded', 'a', 'b', {}, { 'if-match': `"${sha('z')}"` });
    expect([stale.status, stale.json.error.code]).toEqual([412, 'file_changed']);
    expect((await replace('guarded', 'a', 'b', {}, { 'if-match': `"${sha('a')}"` })).status).toBe(200);
  });
});

describe(`POST /ls, /glob, ${lane}`, () => {
  beforeAll(async () => {
    await shell(
      `mkdir -p tree/sub/deep tree/.hidden; touch tree/a.py tree/sub/b.py tree/sub/deep/c.py tree/.hidden/d.py 'tree/e{1}.py';
       ln -s a.py tree/link.py; ln -s /etc/passwd tree/out.py; ln -s sub tree/dir-link; mkfifo tree/f.py`,
    );
  });

  const paths = (found: readonly Listed[] | undefined) =>
    found?.map(({ path }) => path.replace('/workspace/tree/', ''));

  it('lists direct children, pipes too, and nothing that leads out', async () => {
    const { json } = await send('/ls', { path: 'tree' });
    const { entries } = json;
    expect(paths(entries)).toEqual(['.hidden/', 'a.py', 'sub', 'e{1}.py', 'f.py', 'a.py', 'sub/']);
    expect((await send('/ls', { path: 'tree/a.py' })).json).toEqual({ entries: [] });
    expect((await send('/ls', {})).status).toBe(200);
    expect((await send('/ls', { path: '/etc' })).status).toBe(400);
    expect(paths((await send('/ls', { path: '/mnt' })).json.entries)).toEqual(['/mnt/skills/', '/mnt/user-data/']);
  });

  it('globs at any depth', async () => {
    const glob = async (pattern: string, more: object = {}) => {
      const { json } = await send('/glob', { pattern, path: 'tree', ...more });
      expect(json.matches.every(({ is_dir }) => !is_dir)).toBe(true);
      return paths(json.matches);
    };
    const all = ['.hidden/d.py', 'a.py', 'e{1}.py', 'a.py', 'sub/b.py', 'sub/deep/c.py'];
    expect(await glob('*.py')).toEqual(all);
    expect(await glob('/*.py')).toEqual(all);
    expect(await glob('sub/*.py')).toEqual(['sub/b.py']);
    expect(await glob('sub/**/*.py')).toEqual(['sub/b.py', 'sub/deep/c.py']);
    expect(await glob('e{1}.py')).toEqual(['e{1}.py']);
    expect(await glob('[ab].py')).toEqual(['a.py', 'sub/b.py']);
    for (const nothing of ['', '[', '../*', '../../etc/pass*', 'passwd', 'deep', '*.py/']) {
      expect(await glob(nothing)).toEqual([]);
    }
    expect((await send('/glob', { pattern: '*', path: 'tree/none' })).json).toEqual({ matches: [] });
    const pages: string[] = [];
    let cursor: string | null = null;
    do {
      const { json }: { json: Answer } = await send('/glob', { pattern: '*.py', path: 'tree', limit: 2, cursor });
      pages.push(...(paths(json.matches) ?? []));
      cursor = json.next_cursor;
    } while (cursor !== null);
    expect(pages).toEqual(all);
    expect((await send('/glob', { pattern: '*', cursor: '###' })).status).toBe(422);
  });

  it(
    'lists a hundred thousand entries whole and in pages, and answers others meanwhile',
    async () => {
      await shell(`mkdir -p many; cd many; seq -f '%06.0f' 1 100000 | xargs touch`);
      let slowest = 0;
      let isOver = false;
      const beside = (async () => {
        while (!isOver) {
          const began = performance.now();
          await fetch(`${served.base}/health`);
          slowest = Math.max(slowest, performance.now() - began);
          await sleep(5);
        }
      })();
      const { json } = await send('/ls', { path: 'many' });
      isOver = true;
      await beside;
      const { entries } = json;
      // The test itself answers nobody while it parses what has come.
      const copy = JSON.stringify(json);
      const began = performance.now();
      JSON.parse(copy);
      const parsing = performance.now() - began;
      expect(entries.length).toBe(100_000);
      expect(entries[99_999]?.path).toBe('/workspace/many/100000');
      expect(slowest).toBeLessThan(within(2000) + 2 * parsing);
      const page = await send('/ls', { path: 'many', limit: 10 });
      const next = await send('/ls', { path: 'many', limit: 10, cursor: page.json.next_cursor });
      const found = next.json.entries;
      expect(found.map(({ path }) => path)).toEqual(entries.slice(10, 20).map(({ path }) => path));
      const names = (await send('/view', { path: 'many' })).json;
      expect(names.entries.length).toBe(100_000);
      await session.files.remove('many');
    },
    LONG,
  );
});

describe(`POST /grep, ${lane}`, () => {
  beforeAll(async () => {
    await put('grep/a.txt', 'first needle\nsecond\nneedle needle\r\n');
    await put('grep/sub/b.py', 'x = "needle"');
    await put('grep/.hidden', 'needle\n');
    await put('grep/.git/config', 'needle\n');
    await shell(
      'cd grep; ln -s /etc/passwd out; ln -s sub linked; ln -s a.txt same; mkfifo pipe; printf "x\\0needle" > bin',
    );
  });
  const grep = (body: object) => send('/grep', { path: 'grep', ...body });

  it('finds lines in files, hidden ones too, and follows no link', async () => {
    const { json } = await grep({ pattern: 'needle' });
    expect(json).toEqual({
      matches: [
        { path: '/workspace/grep/.git/config', line: 1, text: 'needle' },
        { path: '/workspace/grep/.hidden', line: 1, text: 'needle' },
        { path: '/workspace/grep/a.txt', line: 1, text: 'first needle' },
        { path: '/workspace/grep/a.txt', line: 3, text: 'needle needle' },
        { path: '/workspace/grep/sub/b.py', line: 1, text: 'x = "needle"' },
      ],
      error: null,
      truncated: false,
    });
    const missing = await grep({ pattern: 'no such text here' });
    expect((await grep({ pattern: 'root:' })).json).toEqual(missing.json);
    const file = await send('/grep', { path: 'grep/sub/b.py', pattern: 'needle' });
    expect(file.json.matches).toEqual([{ path: '/workspace/grep/sub/b.py', line: 1, text: 'x = "needle"' }]);
    expect((await send('/grep', { path: 'grep/pipe', pattern: 'x' })).json.matches).toEqual([]);
    expect((await send('/grep', { path: 'none', pattern: 'x' })).json).toEqual(missing.json);
    expect((await send('/grep', { path: '/etc', pattern: 'x' })).status).toBe(400);
  });

  it("takes a shell's globs", async () => {
    const found = async (glob: string) =>
      (await grep({ pattern: 'needle', glob })).json.matches.map(({ path }) => path.replace('/workspace/grep/', ''));
    expect(await found('*.py')).toEqual(['sub/b.py']);
    expect(await found('s*y')).toEqual(['sub/b.py']);
    expect(await found('workspace/grep/*.txt')).toEqual(['a.txt', 'a.txt']);
    expect(await found('b.py')).toEqual(['sub/b.py']);
    expect(await found('{a,b}.*')).toEqual([]);
  });

  it('says what is wrong with a pattern, and stops at its bounds', async () => {
    const bad = await grep({ pattern: '(unclosed' });
    expect([bad.status, bad.json.matches, bad.json.truncated]).toEqual([200, [], false]);
    expect(bad.json.error).toMatch(/unclosed/);
    const back = await grep({ pattern: '(a)\\1' });
    expect([back.status, typeof back.json.error]).toEqual([200, 'string']);
    const some = await grep({ pattern: 'needle', max_matches: 2 });
    expect([some.json.matches.length, some.json.truncated]).toEqual([2, true]);
    expect((await grep({ pattern: 'needle', max_matches: '0' })).json.matches.length).toBe(1);
    await put('wide', `${'x'.repeat(5000)}needle${'y'.repeat(40_000)}\nneedle\n`);
    const wide = await send('/grep', { path: 'wide', pattern: 'needle' });
    expect(wide.json.matches.map(({ line, text, line_truncated }) => [line, text.length, line_truncated])).toEqual([
      [1, 2000, true],
      [2, 6, undefined],
    ]);
    const nested = await grep({ pattern: '(x+x+)+y' });
    expect(nested.json.error).toBeNull();
  });

  it(
    'reads a hundred MiB and no more',
    async () => {
      await shell('yes "some text in a line" | head -c 150000000 > huge; echo needle >> huge');
      const { json } = await send('/grep', { path: 'huge', pattern: 'needle' });
      expect([json.matches, json.truncated, json.error]).toEqual([[], true, null]);
      await shell('rm huge');
    },
    LONG,
  );
});

describe(`POST /grep beyond its time, ${lane}`, () => {
  it('answers with what was found until then, and searches no longer', { timeout: LONG }, async () => {
    const grep = { timeoutSeconds: 1, maxBytesScanned: 1_000_000_000_000 };
    await using slow = await SessionClient.open(await served.host.open('slow', {}, { ...readSettings({}), grep }));
    await slow.sh('mkdir t; echo early > t/a; head -c 30000000 /dev/urandom | base64 -w 500 | tr 0-9 a-j > t/b');
    const began = performance.now();
    // On random text the states of this one are too many to be kept: a megabyte takes a second.
    const answer = await slow.post<Pick<Answer, 'matches' | 'truncated'> & { readonly error: string | null }>('/grep', {
      path: 't',
      pattern: '^early$|[a-z]{3}.{10,300}\\d',
    });
    expect(performance.now() - began).toBeLessThan(within(15_000));
    expect(answer.truncated).toBe(true);
    expect(answer.error).toMatch(/longer than 1 seconds/);
    // A search that went on would keep the agent's threads from this one.
    const next = await slow.post<Pick<Answer, 'matches'>>('/grep', { path: 't/a', pattern: 'early' });
    expect(next.matches).toEqual([{ path: '/workspace/t/a', line: 1, text: 'early' }]);
  });
});

describe(`POST /watch, ${lane}`, () => {
  it('tells the first changes of a directory, by their names', async () => {
    await shell('mkdir -p watched/sub');
    const watching = send('/watch', { path: 'watched', timeout_seconds: 20 });
    await sleep(500);
    await shell('mkdir watched/new');
    expect((await watching).json).toEqual({ changes: [{ path: 'new', event: 'created' }], timed_out: false });
    const moving = send('/watch', { path: 'watched', timeout_seconds: '20' });
    await sleep(500);
    await shell('mv watched/new watched/newer');
    expect((await moving).json.changes).toEqual([
      { path: 'new', event: 'moved_from' },
      { path: 'newer', event: 'moved_to' },
    ]);
  });

  it('tells the last changes of one that is removed', async () => {
    const names = Array.from({ length: 12 }, (_, at) => `watched/gone${at}`);
    await shell(`mkdir ${names.join(' ')}; for d in ${names.join(' ')}; do touch $d/file; done`);
    const going = names.map((path) => send('/watch', { path, timeout_seconds: 20 }));
    await sleep(500);
    await shell(`rm -r ${names.join(' ')}`);
    for (const answer of await Promise.all(going)) {
      expect(answer).toMatchObject({
        status: 200,
        json: { changes: [{ path: 'file', event: 'deleted' }], timed_out: false },
      });
    }
  });

  it('ends after its time, within its bounds', async () => {
    const began = performance.now();
    const { json } = await send('/watch', { path: 'watched', timeout_seconds: -1 });
    expect(json).toEqual({ changes: [], timed_out: true });
    expect(performance.now() - began).toBeLessThan(5000);
    expect((await send('/watch', { path: 'watched/none' })).status).toBe(400);
    expect((await send('/watch', { path: 'crlf' })).status).toBe(400);
    expect((await send('/watch', { path: '/etc' })).status).toBe(400);
  });

  it('is left behind by a client that goes', async () => {
    const controllers = Array.from({ length: 40 }, () => new AbortController());
    const calls = controllers.map(async ({ signal }) =>
      send('/watch', { path: 'watched', timeout_seconds: 60 }, {}, signal),
    );
    await sleep(300);
    expect((await send('/view', { path: 'crlf' })).status).toBe(200);
    for (const controller of controllers) controller.abort();
    expect((await Promise.allSettled(calls)).every(({ status }) => status === 'rejected')).toBe(true);
    expect((await send('/watch', { path: 'watched', timeout_seconds: 0.1 })).status).toBe(200);
  });
});
