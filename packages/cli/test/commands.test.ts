/** The commands over a server in memory: what they ask for, print and answer. */
import { BoxkiteError } from '@boxkite/protocol';
import { expect, test } from 'vitest';
import { call, FakeIo, services } from './support/fake-io.ts';
import { FakeServer, output } from './support/fake-server.ts';

const A = 'aaaaaaaa-1111-4000-8000-000000000000';
const B = 'aaaaaaaa-2222-4000-8000-000000000000';
const C = 'cccccccc-3333-4000-8000-000000000000';

function three(): FakeServer {
  const server = new FakeServer();
  server.add(A, { label: 'build' });
  server.add(B, { workspace: 'disk' });
  server.add(
    C,
    { label: 'old' },
    { state: 'destroyed', state_reason: 'lifetime', destroyed_at: new Date().toISOString() },
  );
  return server;
}

test('create asks for what the options say and prints the id alone', async () => {
  const server = new FakeServer();
  const words =
    'create --label x --workspace disk --memory 64 --pids 5 --cpus 0.5 --workspace-mb 8 --inodes 99 --lifetime 7 --rootfs debian --copy d';
  const { status, out, err } = await call(words.split(' '), services(server));
  expect({ status, out, err }).toEqual({ status: 0, out: '11111111-0000-4000-8000-000000000000\n', err: '' });
  expect(server.made).toEqual([
    {
      label: 'x',
      workspace: 'disk',
      memory_mb: 64,
      pids: 5,
      cpus: 0.5,
      workspace_mb: 8,
      inodes: 99,
      lifetime_minutes: 7,
      rootfs: 'debian',
      copy: 'd',
    },
  ]);
  expect(server.find('11111111-0000-4000-8000-000000000000').summary.state).toBe('ready');
  expect(server.closed).toBe(1);
});

test.each([
  [['--workspace', '512'], 'hint: Write --workspace-mb 512.'],
  [['--workspace', 'floppy'], '--workspace is to be disk or tmpfs, not floppy'],
  [['--lifetime', '0'], '--lifetime is to be 1 to 525600 minutes'],
  [['word'], 'there is one word too many: word'],
])('create %j is refused: %s', async (args, text) => {
  const server = new FakeServer();
  const { status, err } = await call(['create', ...args], services(server));
  expect(status).toBe(2);
  expect(err).toContain(text);
  expect(server.made).toEqual([]);
});

test('ls is a table for people, whole ids for pipes, the wire for programs', async () => {
  const people = await call(['ls'], services(three()), new FakeIo({ terminals: [1], env: { NO_COLOR: '1' } }));
  expect(people.out).toBe(
    [
      'ID          LABEL  STATE    AGE  EXPIRES  WORKSPACE',
      'aaaaaaaa-1  build  ready  1m30s   59m59s  tmpfs 1.0 GiB',
      'aaaaaaaa-2  -      ready  1m30s   59m59s  disk 1.0 GiB',
      '',
    ].join('\n'),
  );
  const pipe = await call(['ls', '--all'], services(three()));
  expect(pipe.out).toContain(`${A}  build  ready`);
  expect(pipe.out).toMatch(new RegExp(`${C}  old    destroyed \\(lifetime\\)  1m30s   0s ago  tmpfs\n`));
  const json = await call(['ls', '--json'], services(three()));
  expect(JSON.parse(json.out)).toMatchObject([
    { id: A, label: 'build', state: 'ready', workspace: { kind: 'tmpfs' } },
    { id: B },
  ]);
  expect((await call(['ls', '-q'], services(three()))).out).toBe(`${A}\n${B}\n`);
  const none = await call(['ls'], services(new FakeServer()));
  expect(none).toMatchObject({ status: 0, out: '', err: 'boxkite: there is no sandbox; `boxkite create` makes one\n' });
});

test('what failed and has nothing left does not say when it ends', async () => {
  const server = new FakeServer();
  server.add(A, {}, { state: 'failed', state_reason: 'start_failed', workspace: { kind: 'tmpfs', kept: false } });
  server.add(B, {}, { state: 'failed', state_reason: 'runner_lost', workspace: { kind: 'disk', kept: true } });
  const { out } = await call(['ls', '--all'], services(server));
  expect(out).toMatch(new RegExp(`${A}.* failed \\(start_failed\\) +\\S+ +- +tmpfs \\(gone\\)\n`));
  expect(out).toMatch(new RegExp(`${B}.* failed \\(runner_lost\\) +\\S+ +59m59s +disk`));
});

test('labels can not steer a terminal and are cut to its width; colours only where they show', async () => {
  const server = new FakeServer();
  server.add(A, { label: `\u001b[31m\u202ered\n${'x'.repeat(300)}` });
  const io = new FakeIo({ terminals: [1] });
  const { out } = await call(['ls'], services(server), io);
  expect(out).toContain('\\x1b[31m\\u202ered\\x0axxx');
  expect(out).toContain('\u001b[32mready\u001b[39m');
  const plain = out.replace(/\u001b\[\d+m/g, '');
  expect(plain).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
  for (const line of plain.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  const without = await call(['ls'], services(server), new FakeIo({ terminals: [1], env: { NO_COLOR: '1' } }));
  expect(without.out).not.toContain('\u001b');
});

test.each([
  [A, A],
  ['build', A],
  ['aaaaaaaa-1', A],
  ['aaaaaaaa-2', B],
])('%s means %s', async (word, id) => {
  const server = three();
  await call(['extend', word, '30'], services(server));
  const left = Date.parse(server.find(id).summary.expires_at) - Date.now();
  expect(left).toBeGreaterThan(29 * 60_000);
  expect(left).toBeLessThanOrEqual(30 * 60_000);
});

test('a whole id needs no list', async () => {
  const server = three();
  await call(['extend', A, '30'], services(server));
  expect(server.lists).toBe(0);
});

test.each([
  ['aaaa', `aaaa means more than one sandbox: ${A} (build), ${B} (invalid_request)`, 2],
  ['zzz', 'there is no sandbox zzz (not_found)', 2],
  ['old', `the sandbox ${C} is destroyed (lifetime) (not_found)`, 2],
  ['cccc', `the sandbox ${C} is destroyed (lifetime) (not_found)`, 2],
])('%s is refused: %s', async (word, text, expected) => {
  const { status, err } = await call(['exec', word, '--', 'true'], services(three()));
  expect(status).toBe(expected);
  expect(err).toContain(text);
});

test('a label that two have is ambiguous, one that is also the beginning of an id is not', async () => {
  const server = three();
  server.change(B, { label: 'build' });
  expect((await call(['sh', 'build'], services(server))).err).toContain('build means more than one sandbox');
  server.change(B, { label: 'aaaa' });
  expect((await call(['stop', 'aaaa'], services(server))).out).toBe(`${B}\n`);
});

test('exec passes output, input and exit status on', async () => {
  const server = three();
  server.script = async function* (exec) {
    yield output('out\n');
    while (!exec.calls.includes('closeStdin')) await exec.heard();
    yield output('err\n', 'stderr');
    yield exec.record({ exit_code: 7 });
  };
  const io = new FakeIo({ stdinEmpty: false });
  io.input.end('typed');
  const words = [
    'exec',
    '--cwd',
    '/tmp',
    '--env',
    'A=1',
    '--timeout',
    '2',
    '--memory',
    '32',
    'build',
    '--',
    'ls',
    '--json',
  ];
  expect(await call(words, services(server), io)).toEqual({ status: 7, out: 'out\n', err: 'err\n' });
  const [exec] = server.find(A).all;
  expect(exec?.request).toMatchObject({
    argv: ['ls', '--json'],
    cwd: '/tmp',
    env: { A: '1' },
    timeout_ms: 2000,
    limits: { memory_mb: 32 },
    stdin: 'stream',
    overflow: 'block',
  });
  expect(exec?.request.tty).toBeUndefined();
  expect(Buffer.concat(exec?.input ?? []).toString()).toBe('typed');
});

const bothTerminals = { terminals: [0, 1], stdinEmpty: false } as const;
test.each([
  ['nothing, on a terminal', [], bothTerminals, { tty: true, input: true, raw: [true, false] }],
  ['nothing, in a pipe', [], { stdinEmpty: false }, { tty: false, input: true, raw: [] }],
  ['nothing, with /dev/null', [], {}, { tty: false, input: false, raw: [] }],
  ['-i', ['-i'], bothTerminals, { tty: false, input: true, raw: [] }],
  ['-t', ['-t'], bothTerminals, { tty: true, input: false, raw: [] }],
  ['-it', ['-it'], bothTerminals, { tty: true, input: true, raw: [true, false] }],
  ['-it without a terminal', ['-it'], { stdinEmpty: false }, { tty: true, input: true, raw: [] }],
] as const)('exec with %s', async (_name, options, given, wanted) => {
  const server = three();
  const io = new FakeIo(given);
  expect((await call(['exec', ...options, 'build', '--', 'x'], services(server), io)).status).toBe(0);
  const request = server.find(A).all[0]?.request;
  expect({ tty: request?.tty !== undefined, input: request?.stdin === 'stream', raw: io.rawModes }).toEqual(wanted);
  expect(io.listening).toBe(0);
});

test('exec hands signals on, and a second one kills', async () => {
  const server = three();
  server.script = async function* (exec) {
    yield output('ready\n');
    while (!exec.calls.includes('signal SIGINT')) await exec.heard();
    yield exec.record({ end: 'signaled', exit_code: null, signal: 'SIGINT' });
  };
  const io = new FakeIo();
  io.output.once('data', () => io.send('SIGINT'));
  expect((await call(['exec', 'build', '--', 'x'], services(server), io)).status).toBe(130);
});

test.each(['exec build -- x', 'logs build', 'start build', 'sh build', 'cp build:a b'])(
  'Ctrl-C ends %s while it looks for its sandbox',
  async (line) => {
    const server = three();
    const io = new FakeIo();
    Object.assign(server.sandboxes, {
      list: async function* (signal?: AbortSignal) {
        const aborted = new Promise<never>((_, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason as Error));
        });
        io.send('SIGINT');
        yield await aborted;
      },
    });
    expect(await call(line.split(' '), services(server), io)).toEqual({ status: 130, out: '', err: '' });
  },
);

test('Ctrl-C ends start between its sandboxes', async () => {
  const server = three();
  const io = new FakeIo();
  Object.assign(server.sandboxes, {
    start: async (_id: string, signal: AbortSignal) => {
      io.send('SIGINT');
      signal.throwIfAborted();
    },
  });
  expect(await call(['start', A, B], services(server), io)).toEqual({ status: 130, out: '', err: '' });
});

test('exec follows the size of the window, and turns off what the command has left on', async () => {
  const server = three();
  server.script = async function* (exec) {
    yield output('\u001b[?1049h\u001b[?25l\u001b[?2004');
    yield output('h\u001b[?1000h\u001b[?1000l');
    while (!exec.calls.includes('resize 120x50')) await exec.heard();
    yield exec.record({ end: 'killed', exit_code: null, reason: 'requested' });
  };
  const io = new FakeIo({ ...bothTerminals, env: { TERM: 'xterm' } });
  io.output.once('data', () => {
    io.size = { columns: 120, rows: 50 };
    io.send('SIGWINCH');
  });
  const { status, out, err } = await call(['exec', 'build', '--', 'vim'], services(server), io);
  expect(status).toBe(137);
  expect(out.endsWith('\u001b[?1049l\u001b[?25h\u001b[?2004l\u001b[0m')).toBe(true);
  expect(err).toBe('boxkite: the command was killed (requested)\n');
  expect(server.find(A).all[0]?.request).toMatchObject({ tty: { columns: 80, rows: 24 }, env: { TERM: 'xterm' } });
});

test('exec --detach prints the id of the exec, and needs nobody to look', async () => {
  const server = three();
  expect(await call(['exec', '-d', 'build', '--', 'x'], services(server))).toEqual({ status: 0, out: '1\n', err: '' });
  expect(server.find(A).all[0]?.request).toEqual({ argv: ['x'], cwd: undefined, env: {}, timeout_ms: undefined });
  expect((await call(['exec', '-d', '-t', 'build', '--', 'x'], services(server))).status).toBe(2);
  const json = await call(['exec', '-d', '--json', 'build', '--', 'x'], services(server));
  expect(JSON.parse(json.out)).toMatchObject({ sandbox_id: A, exec_id: '2', argv: ['x'] });
});

test('exec says where output is missing', async () => {
  const server = three();
  server.script = function* (exec) {
    yield output('a');
    yield { type: 'gap', stream: 'stdout', from: 1, to: 9 };
    yield output('b', 'stdout', 9);
    yield exec.record();
  };
  expect(await call(['exec', 'build', '--', 'x'], services(server))).toEqual({
    status: 0,
    out: 'ab',
    err: 'boxkite: bytes 1 to 9 of stdout are not kept\n',
  });
});

test('logs follow the last exec by default, a named one else', async () => {
  const server = three();
  server.script = function* (exec) {
    yield output(`${exec.id} out\n`);
    yield output(`${exec.id} err\n`, 'stderr');
    yield exec.record({ exit_code: 3 });
  };
  const sandbox = server.find(A);
  expect((await call(['logs', 'build'], services(server))).err).toContain('nothing has run in this sandbox yet');
  for (let each = 0; each < 12; each += 1) sandbox.begin({ argv: ['x'] });
  expect(await call(['logs', 'build'], services(server))).toEqual({ status: 0, out: '12 out\n', err: '12 err\n' });
  expect((await call(['logs', '-f', 'build', '2'], services(server))).out).toBe('2 out\n');
  await call(['logs', '--stream', 'stderr', '--since-offset', '5', 'build'], services(server));
  expect(sandbox.ranges).toEqual([{ follow: false }, { follow: true }, { follow: false, only: 'stderr', stderr: 5 }]);
  for (const [args, text] of [
    [['--since-offset', '5', 'build'], '--since-offset counts the bytes of one stream'],
    [['--stream', 'both', 'build'], '--stream is to be stdout or stderr, not both'],
    [['build', '99'], 'there is no exec 99'],
  ] as const) {
    const { status, err } = await call(['logs', ...args], services(server));
    expect(status).toBe(2);
    expect(err).toContain(text);
  }
});

test('logs --json are lines of the wire, with characters whole', async () => {
  const server = three();
  server.script = function* (exec) {
    yield output(Buffer.from([0x61, 0xe2, 0x82]));
    yield output(Buffer.from([0xac, 0x62]), 'stdout', 3);
    yield output(Buffer.from([0xff]), 'stdout', 5);
    yield { type: 'gap', stream: 'stdout', from: 6, to: 9 };
    yield exec.record();
  };
  server.find(A).begin({ argv: ['x'] });
  const { out } = await call(['logs', '--json', 'build'], services(server));
  expect(
    out
      .trimEnd()
      .split('\n')
      .map((line): unknown => JSON.parse(line)),
  ).toMatchObject([
    { type: 'output', stream: 'stdout', offset: 0, data: 'a' },
    { type: 'output', stream: 'stdout', offset: 1, data: '€b' },
    { type: 'output', stream: 'stdout', offset: 5, data_base64: '/w==' },
    { type: 'gap', stream: 'stdout', from: 6, to: 9 },
    { type: 'exit', exec_id: '1', end: 'exited', exit_code: 0 },
  ]);
});

test('ps shows what runs, of one or of all, and with --all what ran', async () => {
  const server = three();
  const sandbox = server.find(A);
  sandbox.begin({ argv: ['sh', '-c', 'echo a b'] });
  await new Promise((resolve) => setTimeout(resolve, 5));
  server.script = async function* (exec) {
    await exec.heard();
    yield exec.record();
  };
  sandbox.begin({ argv: ['sleep', '60'] });
  sandbox.usage = { ...sandbox.usage, execs: 1 };
  const now = await call(['ps', '--json'], services(server));
  expect(JSON.parse(now.out)).toMatchObject([{ sandbox_id: A, exec_id: '2', state: 'running', argv: ['sleep', '60'] }]);
  const all = await call(['ps', '--all', 'build'], services(server));
  expect(all.out).toMatch(/ 1 +exited 0 +1m01s +0 B +sh -c 'echo a b'\n/);
  expect((await call(['ps', B], services(server))).err).toBe('boxkite: no exec runs\n');
});

test.each([
  [['kill', 'build', '1'], 'kill'],
  [['kill', '-s', 'term', 'build', '1'], 'signal SIGTERM'],
  [['kill', '-9', 'build', '1'], 'signal 9'],
  [['kill', '-HUP', 'build', '1'], 'signal SIGHUP'],
])('%j: %s', async (args, heard) => {
  const server = three();
  const exec = server.find(A).begin({ argv: ['x'] });
  expect(await call(args, services(server))).toEqual({ status: 0, out: '', err: '' });
  expect(exec.calls).toEqual([heard]);
});

test('kill refuses a signal that there is not', async () => {
  const { status, err } = await call(['kill', '-s', 'TREM', 'build', '1'], services(three()));
  expect(status).toBe(2);
  expect(err).toContain('there is no signal TREM');
  expect(err).toContain('Did you mean SIGTERM?');
});

test('rm removes several, goes on after one that fails, and answers with its status', async () => {
  const server = three();
  const { status, out, err } = await call(['rm', A, B, 'ffffffff-0000-4000-8000-000000000000'], services(server));
  expect(status).toBe(2);
  expect(out).toBe(`${A}\n${B}\n`);
  expect(err).toContain('(not_found)');
  expect(server.find(A).summary.state).toBe('destroyed');
  const again = await call(['rm', '--json', A], services(server));
  expect(again.status).toBe(2);
  expect(JSON.parse(again.out)).toMatchObject([{ id: A, error: { code: 'not_found' } }]);
});

test('rm --all asks on a terminal, and is refused without one unless --yes', async () => {
  const server = three();
  const refused = await call(['rm', '--all'], services(server));
  expect(refused.status).toBe(2);
  expect(refused.err).toContain('Add --yes');
  for (const [answer, status, left] of [
    ['n\n', 1, 2],
    ['\n', 1, 2],
    [null, 1, 2],
    ['y\n', 0, 0],
  ] as const) {
    const io = new FakeIo({ terminals: [0, 1, 2] });
    if (answer === null) io.input.end();
    else io.input.write(answer);
    const outcome = await call(['rm', '--all'], services(server), io);
    expect(outcome.status).toBe(status);
    expect(outcome.err).toContain('Remove 2 sandboxes (1 with a disk workspace): build? [y/N] ');
    expect(server.all.filter(({ summary }) => summary.state !== 'destroyed')).toHaveLength(left);
  }
  server.add('dddddddd-0000-4000-8000-000000000000');
  expect((await call(['rm', '--all', '--yes'], services(server))).out).toBe('dddddddd-0000-4000-8000-000000000000\n');
  expect((await call(['rm'], services(server))).status).toBe(2);
  expect((await call(['rm', '--all', 'build'], services(server))).status).toBe(2);
});

test('stop and start keep a disk workspace, and say when there is none', async () => {
  const server = three();
  expect(await call(['stop', B], services(server))).toMatchObject({ status: 0, out: `${B}\n` });
  expect(server.find(B).summary.state).toBe('stopped');
  const table = await call(['ls'], services(server));
  expect(table.out).toContain('stopped (requested)');
  const started = await call(['start', '--json', B], services(server));
  expect(JSON.parse(started.out)).toMatchObject([{ id: B, state: 'ready' }]);
  expect((await call(['stop', 'build'], services(server))).err).toContain('(workspace_not_kept)');
});

test('extend prints the new end and refuses what is no number of minutes', async () => {
  const { out, err } = await call(['extend', 'build', '120'], services(three()));
  expect(out).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z\n$/);
  expect(err).toMatch(/ ends in (1h59m|2h00m)\n$/);
  for (const minutes of ['0', '1.5', 'x', '525601']) {
    expect((await call(['extend', 'build', minutes], services(three()))).status).toBe(2);
  }
});

test('keys: shown once on standard output, listed by their first characters, removed by name', async () => {
  const server = new FakeServer();
  const made = await call(['keys', 'create', 'ci', '--account', 'a', '--admin'], services(server));
  expect(made.out).toBe('bxk_live_abcdefgh\n');
  expect(made.err).toBe('boxkite: this is shown once: key key1 of the account a, an administrator\n');
  const list = await call(['keys', 'ls'], services(server));
  expect(list.out).toContain('key1  ci    a        yes    bxk_live_abcd…  1m30s  never\n');
  expect(list.out).not.toContain('efgh');
  expect(await call(['keys', 'rm', 'ci'], services(server))).toMatchObject({ status: 0, out: 'key1\n' });
  expect(server.keyList).toEqual([]);
  expect((await call(['keys', 'rm', 'ci'], services(server))).err).toContain('there is no key ci');
  expect((await call(['keys', 'craete', 'x'], services(server))).err).toContain('Did you mean `keys create`?');
  expect((await call(['keys'], services(server))).status).toBe(2);
});

test('sh asks for a shell in a terminal of the window’s size', async () => {
  const server = three();
  const io = new FakeIo({ ...bothTerminals, size: { columns: 101, rows: 33 } });
  expect((await call(['sh', 'build'], services(server), io)).status).toBe(0);
  const request = server.find(A).all[0]?.request;
  expect(request?.argv.slice(0, 2)).toEqual(['/bin/sh', '-c']);
  expect(request?.argv.at(-1)).toBe('aaaaaaaa');
  expect(request?.tty).toEqual({ columns: 101, rows: 33 });
  expect(io.rawModes).toEqual([true, false]);
});

test('sh asks for a bare shell where a list lets through no other, and says why where it lets through none', async () => {
  const server = three();
  const sandbox = server.find(A);
  const asked: (readonly string[])[] = [];
  const exec = sandbox.exec.bind(sandbox);
  let bareIsAllowed = true;
  sandbox.exec = (request) => {
    asked.push(request.argv);
    if (request.argv.length === 1 && bareIsAllowed) return exec(request);
    return Promise.reject(new BoxkiteError('command_not_allowed', '`id` is not on the list'));
  };
  const io = new FakeIo(bothTerminals);
  expect((await call(['sh', 'build'], services(server), io)).status).toBe(0);
  expect(asked.map((argv) => argv.length > 1)).toEqual([true, false]);
  expect(asked[1]).toEqual(['/bin/sh']);
  expect(io.rawModes).toEqual([true, false]);
  bareIsAllowed = false;
  const refused = await call(['sh', 'build'], services(server), new FakeIo(bothTerminals));
  expect(refused).toMatchObject({ status: 126, out: '' });
  expect(refused.err).toContain('is not on the list');
});
