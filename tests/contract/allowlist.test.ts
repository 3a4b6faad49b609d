/** Command allowlists over every way in which one is set and a command is started: daemon, sidecar, private runner. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { boxkite, lane, startDaemon, startSidecar, type TestDaemon, type TestSidecar, within } from '@boxkite/testing';
import { type HttpProvider, Sandbox, serverProvider } from 'boxkite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

const LONG = within(120_000);
const KERNEL = ['ls', 'echo', 'cat', 'true', 'python3', { command: 'head', args_allow: ['-n [0-9]+'] }];
const refused = { code: 'command_not_allowed' };
/** Starts what is not on the list from inside a listed program, where no text is judged. */
const FROM_INSIDE = `import os
try:
    os.execv('/usr/bin/id', ['id'])
except OSError as error:
    print('errno', error.errno)`;
const errorBody = z.object({ error: z.object({ code: z.string(), message: z.string() }), detail: z.unknown() });

const base = mkdtempSync(join(tmpdir(), 'boxkite-allowlist-'));
afterAll(() => rmSync(base, { recursive: true, force: true }));

async function inside(sandbox: Sandbox): Promise<string> {
  return (await sandbox.exec(['python3', '-c', FROM_INSIDE])).stdout;
}

describe(`a list of a sandbox, ${lane}`, () => {
  let daemon: TestDaemon;
  let provider: HttpProvider;
  beforeAll(async () => {
    daemon = await startDaemon();
    provider = daemon.provider();
  }, LONG);
  afterAll(async () => {
    await provider.close();
    await daemon[Symbol.asyncDispose]();
  });

  it(
    'is judged at every route of /v1 that starts a program, and held by the kernel beneath',
    async () => {
      await using sandbox = await Sandbox.create({ provider, sandbox_allowed_commands: KERNEL });
      expect((await sandbox.exec('ls /workspace | head -n 3 && echo x')).stdout).toBe('x\n');
      const [exec] = await sandbox.execs.list();
      expect(exec?.record?.effective.programs.enforced).toBe('kernel');
      expect(await inside(sandbox)).toBe('errno 13\n');
      for (const command of ['id', 'echo $(id)', 'ls; id', 'head -c 3 /etc/passwd', 'sh -c id', 'PATH=/tmp ls']) {
        await expect(sandbox.exec(command), command).rejects.toMatchObject(refused);
      }
      await expect(sandbox.exec(['id'])).rejects.toMatchObject(refused);
      await expect(sandbox.execs.start(['id'])).rejects.toMatchObject(refused);
      await expect(sandbox.exec('ls', { env: { PAGER: 'id' } })).rejects.toMatchObject(refused);
      const path = `/v1/sandboxes/${sandbox.id}`;
      for (const [route, body] of [
        ['/exec', { command: 'id' }],
        ['/exec', { argv: ['id'] }],
        ['/execs', { command: 'id' }],
        ['/processes', { command: 'id', max_runtime_seconds: 60 }],
      ] as const) {
        const answer = await daemon.call('POST', path + route, { body });
        expect([
          route,
          answer.status,
          errorBody.parse({ detail: null, ...(answer.json() as object) }).error,
        ]).toMatchObject([
          route,
          403,
          { code: 'command_not_allowed', message: '`id` is not on the list: cat, echo, head, ls, python3, true' },
        ]);
      }
      expect(
        (await daemon.call('POST', `${path}/processes`, { body: { command: 'echo x', max_runtime_seconds: 60 } }))
          .status,
      ).toBe(201);
    },
    LONG,
  );

  it(
    'lets a shell have a terminal where the kernel enforces it, in which nothing else runs',
    async () => {
      await using sandbox = await Sandbox.create({ provider, sandbox_allowed_commands: KERNEL });
      const tty = { columns: 80, rows: 24 };
      const shell = sandbox.stream(['/bin/sh'], { tty, stdin: 'stream' });
      await shell.write('/usr/bin/id; echo status $?; exit\n');
      let stdout = '';
      for await (const event of shell) if (event.type === 'output') stdout += event.text;
      expect(stdout).toContain('status 126');
      expect(stdout).not.toContain('uid=');
      const text = { enforce: 'text', commands: ['sh', 'bash', 'ls'] } as const;
      await using other = await Sandbox.create({ provider, sandbox_allowed_commands: text });
      await expect(other.execs.start(['/bin/sh'], { tty })).rejects.toMatchObject(refused);
      await expect(other.execs.start(['bash'], { tty })).rejects.toMatchObject(refused);
      // The text alone decides there, and says so.
      expect((await other.exec('ls / | ls')).ok).toBe(true);
      const [exec] = await other.execs.list();
      expect(exec?.record?.effective.programs).toEqual({ enforced: 'none', count: 0, via: [] });
    },
    LONG,
  );

  it(
    'binds its own sandbox and account alone',
    async () => {
      await using listed = await Sandbox.create({ provider, sandbox_allowed_commands: ['true'] });
      await using free = await Sandbox.create({ provider });
      const { key } = await provider.keys.create({ name: 'another', account: 'another' });
      const theirs = serverProvider({ url: daemon.url, apiKey: key });
      await using foreign = await Sandbox.create({ provider: theirs });
      expect((await free.exec('id -u')).stdout).toBe('1001\n');
      expect((await foreign.exec('id -u')).stdout).toBe('1001\n');
      await expect(listed.exec('id -u')).rejects.toMatchObject(refused);
      await foreign[Symbol.asyncDispose]();
      await theirs.close();
    },
    LONG,
  );

  it(
    'goes on after kill -9 of Node',
    async () => {
      await using sandbox = await Sandbox.create({ provider, sandbox_allowed_commands: KERNEL });
      await daemon.killNode();
      await daemon.serving();
      await expect(sandbox.exec('id')).rejects.toMatchObject(refused);
      expect(await inside(sandbox)).toBe('errno 13\n');
      expect((await sandbox.exec('echo x')).stdout).toBe('x\n');
    },
    LONG,
  );

  it(
    'is that of a sandbox that is stopped and started again',
    async () => {
      let sandbox: Sandbox;
      try {
        sandbox = await Sandbox.create({ provider, workspace: 'disk', sandbox_allowed_commands: KERNEL });
      } catch (error) {
        // An ordinary user's machine may have no disk workspace, and says so.
        expect(error).toMatchObject({ code: 'isolation_unavailable' });
        expect(lane).not.toBe('root');
        return;
      }
      await provider.sandboxes.stop(sandbox.id);
      await using again = await Sandbox.start(sandbox.id, { provider });
      await expect(again.exec('id')).rejects.toMatchObject(refused);
      expect(await inside(again)).toBe('errno 13\n');
    },
    LONG,
  );

  it(
    'that is wrong makes no sandbox, and names what is',
    async () => {
      const before = await count(provider);
      for (const [list, key] of [
        [[''], 'commands[0]'],
        [['busybox'], 'commands[0]'],
        [['/workspace/tool'], 'commands[0]'],
        [[{ command: 'ls', args_allowed: [] }], 'commands[0].args_allowed'],
        [{ commands: ['ls'], enforce: 'kernal' }, 'enforce'],
        ['ls', 'allowlist'],
        [5, 'allowlist'],
      ] as const) {
        const answer = await daemon.call('POST', '/v1/sandboxes', { body: { sandbox_allowed_commands: list } });
        const { error } = z
          .object({ error: z.object({ code: z.string(), details: z.unknown() }) })
          .parse(answer.json());
        expect([answer.status, error.code, error.details]).toMatchObject([
          422,
          'invalid_request',
          { field: 'sandbox_allowed_commands', key },
        ]);
      }
      expect(await count(provider)).toBe(before);
    },
    LONG,
  );
});

async function count(provider: HttpProvider): Promise<number> {
  let ready = 0;
  for await (const { state } of provider.sandboxes.list()) if (state === 'ready') ready += 1;
  return ready;
}

it(
  `of a deployment a command needs it, and that of its sandbox, ${lane}`,
  async () => {
    const file = join(base, 'list.json');
    writeFileSync(file, JSON.stringify({ enforce: 'text', commands: ['echo', 'ls', 'cat'] }), { mode: 0o644 });
    await using daemon = await startDaemon({ args: ['--allowed-commands', file] });
    const provider = daemon.provider();
    await using any = await Sandbox.create({ provider });
    expect((await any.exec('echo x | cat')).stdout).toBe('x\n');
    await expect(any.exec('id')).rejects.toMatchObject(refused);
    await using both = await Sandbox.create({ provider, sandbox_allowed_commands: ['echo', 'id'] });
    expect((await both.exec('echo x')).stdout).toBe('x\n');
    await expect(both.exec('id')).rejects.toMatchObject(refused);
    await expect(both.exec('cat')).rejects.toMatchObject(refused);
    await daemon.killNode();
    await daemon.serving();
    await expect(any.exec('id')).rejects.toMatchObject(refused);
    await provider.close();
  },
  LONG,
);

it(
  `that is wrong starts no daemon, ${lane}`,
  async () => {
    const file = join(base, 'wrong.json');
    writeFileSync(file, '[\n  "ls",\n  ""\n]\n', { mode: 0o644 });
    const { status, stderr } = await boxkite(['serve', '--data', join(base, 'none'), '--allowed-commands', file]);
    expect(status).toBe(2);
    expect(stderr).toContain(`${file}:3: commands[1] is blank`);
  },
  LONG,
);

describe(`a list of a use, ${lane}`, () => {
  let sidecar: TestSidecar;
  beforeAll(async () => {
    const list = JSON.stringify({ enforce: 'text', commands: ['echo', 'ls', 'cat', 'python3'] });
    sidecar = await startSidecar({ env: { SIDECAR_TLS_DISABLED: 'true', SANDBOX_ALLOWED_COMMANDS: list } });
  }, LONG);
  afterAll(async () => {
    await sidecar[Symbol.asyncDispose]();
  });

  async function call(path: string, body: object): Promise<{ status: number; text: string }> {
    const answer = await sidecar.call('POST', path, { body });
    return { status: answer.status, text: await answer.text() };
  }

  async function outcome(command: string): Promise<string> {
    const { status, text } = await call('/exec', { command });
    if (status === 200) return z.object({ stdout: z.string() }).parse(JSON.parse(text)).stdout;
    const { error, detail } = errorBody.parse(JSON.parse(text));
    expect(detail).toBe(error.message);
    return `${status} ${error.code}`;
  }

  it(
    'is set by /configure, on top of that of the deployment',
    async () => {
      expect(await outcome('echo x')).toBe('x\n');
      expect(await outcome('id')).toBe('403 command_not_allowed');
      expect((await call('/configure', { sandbox_allowed_commands: ['echo', 'id'] })).status).toBe(200);
      expect([await outcome('echo x'), await outcome('id'), await outcome('ls')]).toEqual([
        'x\n',
        '403 command_not_allowed',
        '403 command_not_allowed',
      ]);
      expect((await call('/process/start', { command: 'ls', max_runtime_seconds: 60 })).status).toBe(403);
      expect((await call('/interpreter/exec', { code: '1' })).status).toBe(403);
      await sidecar.killNode();
      await sidecar.serving();
      expect([await outcome('echo x'), await outcome('ls')]).toEqual(['x\n', '403 command_not_allowed']);
    },
    LONG,
  );

  it(
    'that is wrong leaves the present use as it is',
    async () => {
      expect((await call('/configure', { sandbox_allowed_commands: ['echo', 'cat'] })).status).toBe(200);
      expect((await call('/file-create', { path: 'kept', content: 'kept' })).status).toBe(200);
      const { status, text } = await call('/configure', {
        sandbox_allowed_commands: ['echo', { command: 'cat', args: [] }],
      });
      expect([status, text]).toEqual([422, expect.stringContaining('commands[1].args')]);
      expect([await outcome('cat kept'), await outcome('ls')]).toEqual(['kept', '403 command_not_allowed']);
    },
    LONG,
  );

  it(
    'is the kernel’s too, and an interpreter works under it',
    async () => {
      expect((await call('/configure', { sandbox_allowed_commands: ['echo', 'python3'] })).status).toBe(200);
      const answer = await call('/interpreter/exec', { code: `import ssl, sqlite3\n${FROM_INSIDE}` });
      expect([answer.status, answer.text]).toEqual([200, expect.stringContaining('errno 13')]);
      expect((await call('/configure', {})).status).toBe(200);
      const free = await call('/interpreter/exec', {
        code: 'import subprocess\nsubprocess.run(["id", "-u"]).returncode',
      });
      expect(free.text).toContain('1001');
    },
    LONG,
  );
});

it(
  `of a private sandbox is judged and enforced as well, ${lane}`,
  async () => {
    const list = JSON.stringify(['echo', 'python3']);
    const run = (words: readonly string[], env = {}) => boxkite(['run', '--private', ...words], env);
    expect(await run(['--allowed-commands', list, '--', 'id'])).toMatchObject({
      status: 126,
      stderr: expect.stringContaining('`id` is not on the list: echo, python3') as unknown,
    });
    const inner = await run(['--allowed-commands', list, '--', 'python3', '-c', FROM_INSIDE]);
    expect([inner.status, inner.stdout]).toEqual([0, 'errno 13\n']);
    const variable = { SANDBOX_ALLOWED_COMMANDS: '{"enforce": "text", "commands": ["echo"]}' };
    expect((await run(['--', 'echo', 'x'], variable)).stdout).toBe('x\n');
    expect((await run(['--', 'id'], variable)).status).toBe(126);
  },
  LONG,
);

it(
  `of a sidecar is a file, which counts in place of the variable and is refused by its line, ${lane}`,
  async () => {
    const file = join(base, 'of-a-sidecar.json');
    const env = { SIDECAR_TLS_DISABLED: 'true', SANDBOX_ALLOWED_COMMANDS: '["id"]' };
    writeFileSync(file, '{"enforce": "text",\n "commands": ["echo"]}');
    await using sidecar = await startSidecar({ args: ['--allowed-commands', file], env });
    const statuses = ['echo x', 'id'].map(
      async (command) => (await sidecar.call('POST', '/exec', { body: { command } })).status,
    );
    expect(await Promise.all(statuses)).toEqual([200, 403]);
    writeFileSync(file, '["echo",\n ""]');
    const words = ['sidecar', '--data', join(base, 'no-sidecar'), '--allowed-commands', file];
    const { status, stderr } = await boxkite(words, env);
    expect([status, stderr]).toEqual([2, expect.stringContaining(`${file}:2: commands[1] is blank`)]);
  },
  LONG,
);
