/** The gate in front of everything that starts a program, and that nothing goes around it. */
import { readdirSync, readFileSync } from 'node:fs';
import { BoxkiteError, type ExecRequest } from '@boxkite/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { blankConfiguration } from '../src/session/configuration.ts';
import { CommandGate } from '../src/session/gate.ts';
import type { KernelPrograms } from '../src/session/kernel-programs.ts';
import { SessionRegistry } from '../src/session/session-registry.ts';
import { daemonSettings, readSettings } from '../src/settings.ts';
import { createSidecar } from '../src/sidecar.ts';
import { Host } from './support/sessions.ts';

const text = (...commands: readonly unknown[]): string => JSON.stringify({ enforce: 'text', commands });
const use = (sandbox_allowed_commands: string | null) => ({
  ...blankConfiguration,
  sandbox_allowed_commands,
  generation: 1,
  digest: '',
});

const done = (): Promise<void> => Promise.resolve();

function gateOf(deployment: string | null, sandbox: string | null, used: string | null = null): CommandGate {
  return new CommandGate({ lists: { deployment, sandbox }, used, kernel: done, save: done });
}

function refusalOf(run: () => unknown): BoxkiteError {
  try {
    run();
  } catch (error) {
    if (error instanceof BoxkiteError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

const line = (command: string): ExecRequest => ({ argv: ['/bin/sh', '-c', command] });

describe('a gate', () => {
  it('lets everything pass where there is no list', () => {
    const gate = gateOf(null, null);
    gate.admit({ argv: ['anything'], env: { PAGER: 'x' }, tty: { columns: 1, rows: 1 } });
    gate.admitProgram('python3');
    expect(gate.isClosed).toBe(false);
  });

  it('wants every list to allow a command', () => {
    const gate = gateOf(text('ls', 'cat', 'wc'), text('ls', 'cat', 'id'), text('ls', 'wc', 'id'));
    gate.admit(line('ls | ls -l'));
    for (const [program, list] of [
      ['id', 'cat, ls, wc'],
      ['wc', 'cat, id, ls'],
      ['cat', 'id, ls, wc'],
    ] as const) {
      const error = refusalOf(() => gate.admit(line(`ls; ${program}`)));
      expect([error.code, error.message]).toEqual([
        'command_not_allowed',
        `\`${program}\` is not on the list: ${list}`,
      ]);
      expect(error.details).toEqual({ reason: error.message, at: 4, program });
    }
  });

  it('allows nothing by an empty list', () => {
    expect(refusalOf(() => gateOf(null, text()).admit({ argv: ['true'] })).message).toContain('it is empty');
  });

  it('judges an argument list without a shell, and a background process by its line', () => {
    const gate = gateOf(null, text('echo'));
    gate.admit({ argv: ['echo', '$(id)'] });
    gate.admit({ argv: ['/bin/sh', '-c', 'exec 2>&1; exec /bin/sh -c "$1"', 'process', 'echo x', 'what it is for'] });
    for (const argv of [
      ['/bin/sh', '-c', 'exec 2>&1; exec /bin/sh -c "$1"', 'process', 'id'],
      ['/bin/sh', '-c', 'exec 2>&1; exec /bin/sh -c "$1"', 'process'],
      ['/bin/sh', '-c', 'exec 2>&1; exec /bin/sh -c "$1"; id', 'process', 'echo x'],
      ['sh', '-c', 'echo $(id)'],
      ['sh', 'script'],
      ['sh'],
    ]) {
      expect(refusalOf(() => gate.admit({ argv })).code, argv.join(' ')).toBe('command_not_allowed');
    }
  });

  it('lets a shell have a terminal only where the kernel enforces every list', () => {
    const tty = { columns: 80, rows: 24 };
    const kernel = JSON.stringify(['ls', 'bash']);
    gateOf(kernel, null).admit({ argv: ['sh'], tty });
    gateOf(kernel, null).admit({ argv: ['/bin/sh', '-i'], tty });
    gateOf(kernel, kernel).admit({ argv: ['bash', '-i'], tty });
    gateOf(null, text('ls')).admit({ argv: ['ls'], tty });
    gateOf(null, text('ls')).admit({ ...line('ls'), tty });
    for (const [gate, argv] of [
      [gateOf(null, text('sh', 'bash')), ['sh']],
      [gateOf(null, text('sh', 'bash')), ['bash', '-l']],
      [gateOf(kernel, text('sh', 'bash')), ['sh']],
      [gateOf(kernel, null), ['dash']],
      [gateOf(kernel, null), ['bash', '--rcfile', 'x']],
      [gateOf(kernel, null), ['/usr/bin/bash']],
      [gateOf(JSON.stringify([{ command: 'bash', args_allow: ['-c ls'] }]), null), ['bash']],
    ] as const) {
      expect(refusalOf(() => gate.admit({ argv, tty })).code, argv.join(' ')).toBe('command_not_allowed');
    }
    // Without a terminal it would read what nobody judges.
    expect(refusalOf(() => gateOf(kernel, null).admit({ argv: ['bash'] })).code).toBe('command_not_allowed');
  });

  it('lets no variable decide what a listed program starts', () => {
    const gate = gateOf(null, text('git'));
    for (const field of ['env', 'secret_env'] as const) {
      const error = refusalOf(() => gate.admit({ argv: ['git', 'log'], [field]: { GIT_PAGER: 'id' } }));
      expect([error.code, error.details['field']]).toEqual(['command_not_allowed', field]);
      gate.admit({ argv: ['git', 'log'], [field]: { API_KEY: 'id', LANG: 'C' } });
    }
  });

  it('wants a rule without patterns for what runs any code', () => {
    gateOf(null, text('python3')).admitProgram('python3');
    const patterns = gateOf(null, text({ command: 'python3', args_allow: ['.*'] }));
    expect(refusalOf(() => patterns.admitProgram('python3')).message).toContain('a rule without patterns');
    const absent = refusalOf(() => gateOf(text('python3'), text('ls')).admitProgram('python3'));
    expect(absent.message).toBe('`python3` is not on the list: ls');
  });

  it.each<[list: string, key: string]>([
    ['[""]', 'commands[0]'],
    ['["ls", {"command": "git", "arg_allow": []}]', 'commands[1].arg_allow'],
    ['[{"command": "git", "args_allow": ["("]}]', 'commands[0].args_allow[0]'],
    ['["busybox"]', 'commands[0]'],
    ['["./gradlew"]', 'commands[0]'],
    ['{"commands": ["ls"], "enforce": "no"}', 'enforce'],
    ['"ls"', 'allowlist'],
    ['[', 'allowlist'],
  ])('is never opened by the wrong list %s', (list, key) => {
    for (const make of [
      () => gateOf(list, null),
      () => gateOf(null, list),
      () => gateOf(null, null, list),
      () => gateOf(null, null).check(use(list)),
      () => readSettings({ SANDBOX_ALLOWED_COMMANDS: list }),
    ]) {
      const error = refusalOf(make);
      expect([error.code, error.details['key']]).toEqual(['invalid_request', key]);
      expect(error.message).toMatch(/^(?:SANDBOX_ALLOWED_COMMANDS|sandbox_allowed_commands):1: /);
    }
  });

  it('tells the kernel what is on every list that it is to enforce', async () => {
    const told: KernelPrograms[] = [];
    const kernel = (programs: KernelPrograms): Promise<void> => {
      told.push(programs);
      return Promise.resolve();
    };
    const gate = new CommandGate({
      lists: { deployment: '["ls", "cat", "id"]', sandbox: null },
      used: null,
      kernel,
      save: done,
    });
    await gate.begin(use('["id", "wc", "ls"]'));
    await gate.begin(use(text('wc')));
    await gate.begin(use(null));
    await gate.begin(use('["id"]'));
    expect(told).toEqual([['ls', 'id'], ['ls', 'cat', 'id'], ['id']]);
  });

  it('tells the kernel again what an earlier process may have changed between two uses', async () => {
    const told: KernelPrograms[] = [];
    const kernel = (programs: KernelPrograms): Promise<void> => {
      told.push(programs);
      return Promise.resolve();
    };
    const lists = { deployment: null, sandbox: null };
    let kept: unknown;
    const first: CommandGate = new CommandGate({
      lists,
      used: '["ls"]',
      kernel: () => Promise.reject(new Error('killed')),
      save: () => {
        kept = first.kept();
        return Promise.resolve();
      },
    });
    await expect(first.begin(use(null))).rejects.toThrow('killed');
    const unsureNone = { programs: null, is_sure: false };
    expect([kept, first.kept()]).toEqual([unsureNone, unsureNone]);
    const next = new CommandGate({ lists, used: '["ls"]', kernel, found: kept, save: done });
    await next.settle();
    await next.settle();
    expect([told, next.kept()]).toEqual([[['ls']], { programs: ['ls'], is_sure: true }]);
    const unsure = new CommandGate({
      lists,
      used: '["ls"]',
      kernel: () => Promise.reject(new Error('no')),
      found: kept,
      save: done,
    });
    await unsure.settle();
    expect(() => unsure.admit({ argv: ['ls'] })).toThrow('no');
    expect(() => unsure.admitProgram('ls')).toThrow('no');
  });

  it('tells the kernel again what it holds where the answer to another list was lost', async () => {
    const told: KernelPrograms[] = [];
    const lists = { deployment: null, sandbox: null };
    const kernel = (programs: KernelPrograms): Promise<void> => {
      told.push(programs);
      return told.length === 2 || told.length === 3 ? Promise.reject(new Error('lost')) : Promise.resolve();
    };
    const gate = new CommandGate({ lists, used: null, kernel, save: done });
    await gate.begin(use('["ls"]'));
    await expect(gate.begin(use(null))).rejects.toThrow('lost');
    // The same list as before, but nobody knows what is in force.
    await expect(gate.begin(use('["ls"]'))).rejects.toThrow('lost');
    const found = gate.kept();
    await gate.begin(use('["ls"]'));
    await gate.begin(use('["ls"]'));
    expect(told).toEqual([['ls'], null, ['ls'], ['ls']]);
    const next = new CommandGate({ lists, used: '["ls"]', kernel, found, save: done });
    await next.settle();
    await next.settle();
    expect(told.length).toBe(5);
  });

  it('keeps its list where the kernel refuses the next one', async () => {
    const gate = new CommandGate({
      lists: { deployment: null, sandbox: null },
      used: text('ls'),
      kernel: () => Promise.reject(new Error('no')),
      save: done,
    });
    await expect(gate.begin(use('["id"]'))).rejects.toThrow('no');
    gate.admit({ argv: ['ls'] });
    expect(refusalOf(() => gate.admit({ argv: ['id'] })).code).toBe('command_not_allowed');
  });
});

describe('the runner', () => {
  it('is asked to start something only by what asks the gate before', () => {
    const packages = new URL('../../', import.meta.url);
    const found: string[] = [];
    for (const file of readdirSync(packages, { recursive: true, encoding: 'utf8' })) {
      if (!/^(?:sidecar|local|server|manager|kit)\/src\/.*\.ts$/.test(file)) continue;
      if (/\bclient\.exec\(/.test(readFileSync(new URL(file, packages), 'utf8'))) found.push(file);
    }
    expect(found.toSorted()).toEqual([
      'local/src/sandbox.ts',
      'sidecar/src/interpreter/process.ts',
      'sidecar/src/session/session-execs.ts',
    ]);
  });
});

/** Bodies of the routes that start a program. A new route that is in neither list fails the test. */
const STARTS: Readonly<Record<string, object>> = {
  'POST /exec': { command: 'id' },
  'POST /execs': { argv: ['id'] },
  'POST /process/start': { command: 'id', max_runtime_seconds: 60 },
  'POST /interpreter/exec': { code: '1' },
};
/** Those that do not, with a body that is worth something. */
const STARTS_NOTHING: Readonly<Record<string, object | null>> = {
  'GET /health': null,
  'GET /metrics': null,
  'GET /execs': null,
  'GET /execs/:eid': null,
  'GET /execs/:eid/output': null,
  'GET /execs/:eid/attach': null,
  'POST /execs/:eid/input': {},
  'POST /execs/:eid/close-stdin': {},
  'POST /execs/:eid/signal': { signal: 'TERM' },
  'POST /execs/:eid/resize': { columns: 80, rows: 24 },
  'GET /process': null,
  'GET /process/:id/output': null,
  'POST /process/:id/input': { data: 'id\n' },
  'POST /process/:id/stop': {},
  'POST /process/:id/close-stdin': {},
  'POST /process/kill-all': {},
  'POST /interpreter/reset': {},
  'GET /interpreter/status': null,
};
/** Their handlers have files and stores alone, which start nothing. */
const FILES = new Set(
  [
    'POST /file-create, POST /view, POST /str-replace, POST /read-image, POST /present-files, POST /ls, POST /glob',
    'POST /grep, POST /watch, GET /files/content, HEAD /files/content, PUT /files/content, DELETE /files, POST /files',
    'POST /files/move, POST /files/mkdir, GET /files/stat, POST /files/ls, GET /files/archive, PUT /files/archive',
    'POST /flush, POST /flush/confirmed, POST /ensure-skills, POST /inject-skills, POST /prefetch-uploads',
    'POST /scratch/set, GET /scratch/get, GET /scratch/list, POST /scratch/delete, POST /tool-call',
  ]
    .join(', ')
    .split(', '),
);
/** The list of a use is set by it. */
const CONFIGURES = 'POST /configure';
const TOKEN = 'a token';

describe('every route', () => {
  let host: Host;
  let app: ReturnType<typeof createSidecar>;
  const routes = new Set<string>();
  const closing = new AbortController();

  beforeEach(async () => {
    host = await Host.start({});
    await host.session.close();
    host.more = { allowedCommands: text('echo'), settings: daemonSettings };
    const registry = new SessionRegistry();
    registry.add(TOKEN, await host.open());
    app = createSidecar(registry, { closing: closing.signal });
    app.addHook('onRoute', ({ method, url }) => {
      for (const name of [method].flat()) routes.add(`${name} ${url}`);
    });
    await app.ready();
  });
  afterEach(async () => {
    await app.close();
    await host[Symbol.asyncDispose]();
  });

  async function call(route: string, body: object | null) {
    const [method = '', path = ''] = route.split(' ');
    const url = path.replaceAll(/:[a-z]+/g, 'none');
    const answer = await app.inject({
      method,
      url,
      headers: { 'x-sidecar-auth-token': TOKEN },
      ...(body !== null && { payload: body }),
    });
    return { status: answer.statusCode, code: /"code":"([a-z_]+)"/.exec(answer.body)?.[1], body: answer.body };
  }

  it('is known to start a program, or to start none', () => {
    const known = [...Object.keys(STARTS), ...Object.keys(STARTS_NOTHING), ...FILES, CONFIGURES];
    expect([...routes].filter((route) => !known.includes(route))).toEqual([]);
    expect([...Object.keys(STARTS), ...Object.keys(STARTS_NOTHING)].filter((route) => !routes.has(route))).toEqual([]);
  });

  it.each(Object.entries(STARTS))('%s passes the gate, and what is refused counts nothing', async (route, body) => {
    const answer = await call(route, body);
    expect([answer.status, answer.code], answer.body).toEqual([403, 'command_not_allowed']);
    expect((JSON.parse(answer.body) as { detail: string }).detail).toContain('is not on the list: echo');
    expect(host.runner.execs.size).toBe(0);
    expect(await host.session.execs.list()).toEqual([]);
  });

  it('starts nothing that is not said to', async () => {
    for (const [route, body] of Object.entries(STARTS_NOTHING)) await call(route, body);
    expect(host.runner.execs.size).toBe(0);
  });

  it('goes on by the list of the sandbox after a restart of the process', async () => {
    await host.session.close();
    await host.open();
    await expect(host.session.exec({ argv: ['id'] })).rejects.toMatchObject({ code: 'command_not_allowed' });
    const { record } = await host.session.execs.run({ argv: ['echo', 'x'] });
    expect(record.end).toBe('exited');
  });
});

describe('a list of a use', () => {
  it('that is wrong ends nothing of the use before it', async () => {
    await using host = await Host.start({ held: [] }, ['held']);
    const id = await host.start('held');
    const wrong = { ...blankConfiguration, sandbox_allowed_commands: '[""]' };
    await expect(host.session.configure(wrong)).rejects.toMatchObject({ code: 'invalid_request' });
    expect((await host.session.execs.get(id)).state).toBe('running');
  });

  it('is not taken by its text alone where the kernel was to enforce it', async () => {
    await using host = await Host.start({});
    host.more = { allowedCommands: '["ls"]' };
    await host.session.close();
    await expect(host.open()).rejects.toMatchObject({ code: 'isolation_unavailable' });
    host.more = {};
    await host.open();
  });
});
