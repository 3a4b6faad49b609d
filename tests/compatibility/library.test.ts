/** What the published library does beside its default tools, unmodified, over a real sidecar. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ObservedLibrary } from './support/observed-library.ts';
import type { Recordings } from './support/record.ts';
import type { Exchange } from './support/recording-proxy.ts';

let observed: ObservedLibrary;
/** Everything that went through the proxy. */
const seen: Exchange[] = [];

beforeAll(async () => {
  observed = await ObservedLibrary.start();
}, 120_000);

afterAll(() => observed[Symbol.asyncDispose]());

/** A session, and calls of the manager for it. */
async function session(more: Readonly<Record<string, unknown>> = {}) {
  const id = randomUUID();
  await observed.library.createSession(id, more);
  const call = async <T>(name: string, args: Readonly<Record<string, unknown>> = {}) => {
    const value = await observed.library.manager<T>(name, { session_id: id, ...args });
    seen.push(...observed.proxy.take());
    return value;
  };
  return { id, call };
}

interface ExecAnswer {
  readonly exit_code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const containing = (text: string): unknown => expect.stringContaining(text);

describe('sessions', () => {
  it('leave nothing to the next one', async () => {
    const first = await session();
    await first.call('execute', {
      command: 'echo x > /workspace/a; echo x > /tmp/a; echo x > /mnt/user-data/outputs/a',
    });
    await first.call('interpreter_exec', { code: 'kept = 1' });
    await first.call('scratch_set', { key: 'k', value: 'v' });
    await first.call('start_process', { command: 'sleep 600' });
    const second = await session();
    const { stdout } = await second.call<ExecAnswer>('execute', {
      command: 'find /workspace /tmp /mnt/user-data/outputs -type f; pgrep -x sleep',
    });
    expect(stdout).toBe('');
    expect(await second.call('interpreter_exec', { code: 'kept' })).toMatchObject({
      error: containing('NameError'),
    });
    expect(await second.call('scratch_get', { key: 'k' })).toMatchObject({ found: false });
    expect(await second.call('list_processes')).toEqual([]);
  });

  it('are taken up again with new uploads, and keep their files', async () => {
    const { id, call } = await session();
    await call('execute', { command: 'echo kept > a' });
    await observed.library.createSession(id, { upload_file_ids: ['none'] });
    expect(await call('execute', { command: 'cat a' })).toMatchObject({ stdout: 'kept\n' });
  });

  it('have their processes ended and files flushed when they are destroyed', async () => {
    const { id, call } = await session();
    await call('start_process', { command: 'sleep 600' });
    await call('destroy_session');
    await expect(observed.library.manager('execute', { session_id: id, command: 'true' })).rejects.toThrow();
    const next = await session();
    expect(await next.call('execute', { command: 'pgrep -x sleep' })).toMatchObject({ stdout: '' });
  });

  it('say in /health whose they are, and how long they have been idle', async () => {
    const { id, call } = await session();
    const health = await call<{ readonly idle_seconds: number }>('health_check');
    expect(health).toMatchObject({ status: 'healthy', session_id: id });
    expect(typeof health.idle_seconds).toBe('number');
  });
});

describe('calls of the manager', () => {
  it('replace every occurrence', async () => {
    const { call } = await session();
    await call('file_create', { path: 'a', content: 'x y x' });
    const args = { path: 'a', old_str: 'x', new_str: 'z', replace_all: true };
    expect(await call('str_replace', args)).toMatchObject({ path: '/workspace/a', replaced: true, occurrences: 2 });
    expect(await call('view', { path: 'a' })).toMatchObject({ content: 'z y z', lines: 1, is_directory: false });
  });

  it('show skills, which nobody writes to, and take the same ones twice', async () => {
    const { call } = await session();
    const files = [{ path: 'SKILL.md', content: 'text of it' }];
    const skills = [
      { instance_slug: 'a-skill', display_name: 'A skill', skill_path: 'SKILL.md', entrypoints: [], files },
    ];
    await call('ensure_skills', { skills });
    expect(await call('execute', { command: 'cat /mnt/skills/a-skill/SKILL.md' })).toMatchObject({
      stdout: containing('text of it'),
    });
    expect(await call('execute', { command: 'echo x >> /mnt/skills/a-skill/SKILL.md' })).not.toMatchObject({
      exit_code: 0,
    });
    await call('ensure_skills', { skills });
  });

  it('keep what is set in scratch memory', async () => {
    const { call } = await session();
    expect(await call('scratch_set', { key: 'k', value: 'v\u00fc' })).toMatchObject({
      key: 'k',
      bytes_stored: 3,
      keys: 1,
    });
    expect(await call('scratch_get', { key: 'k' })).toMatchObject({ key: 'k', value: 'v\u00fc', found: true });
    expect(await call('scratch_list')).toMatchObject({ keys: 1, total_bytes: 4 });
    expect(await call('scratch_delete', { key: 'k' })).toMatchObject({ deleted: true, keys: 0 });
    expect(await call('scratch_get', { key: 'k' })).toMatchObject({ found: false });
  });

  it('reset the interpreter', async () => {
    const { call } = await session();
    await call('interpreter_exec', { code: 'x = 1' });
    expect(await call('interpreter_reset')).toMatchObject({ status: 'reset' });
    expect(await call('interpreter_exec', { code: 'x' })).toMatchObject({
      error: containing('NameError'),
    });
  });

  it('flush, take a snapshot and collect what is delivered', async () => {
    const { call, id } = await session();
    await call('execute', {
      command: 'echo one > a; mkdir -p /mnt/user-data/outputs/d; echo two > /mnt/user-data/outputs/d/b.txt',
    });
    await call('flush');
    const snapshot = await call<{ storage_prefix: string; storage_keys: string[] }>('snapshot');
    expect(snapshot.storage_prefix).toContain(id);
    expect(snapshot.storage_keys).toEqual(['outputs/d/b.txt', 'workspace/a']);
    expect(await call('collect_output_files')).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ path: '/mnt/user-data/outputs/d/b.txt', size: 4, content_type: 'text/plain' }),
      ]),
    );
  });

  it('raise for what is missing', async () => {
    const { call } = await session();
    await expect(call('read_image', { path: 'none.png' })).rejects.toMatchObject({ type: 'FileNotFoundError' });
    await expect(call('stop_process', { process_id: 'none' })).rejects.toMatchObject({ type: 'ValueError' });
    await expect(call('view', { path: 'none' })).rejects.toMatchObject({ type: 'HTTPStatusError' });
  });

  it('ask once for what fails, whatever it is', async () => {
    const { call } = await session();
    const calls = [
      ['interpreter_exec', { code: 'import os; os._exit(3)' }],
      ['interpreter_exec', { code: 'import time; time.sleep(60)', timeout: 1 }],
      ['execute', { command: 'kill -9 $$' }],
      ['execute', { command: 'sleep 60', timeout: 1 }],
    ] as const;
    for (const [name, args] of calls) {
      observed.proxy.take();
      const value = await observed.library.manager(name, { session_id: (await whose(call)) ?? '', ...args });
      expect(value).toBeTypeOf('object');
      const asked = observed.proxy.take();
      expect(
        asked.filter(({ url }) => url !== '/health').map(({ status }) => status),
        JSON.stringify(args),
      ).toEqual([200]);
    }
  });
});

/** The session of these calls. */
async function whose(call: (name: string) => Promise<unknown>): Promise<string | undefined> {
  return ((await call('health_check')) as { readonly session_id?: string }).session_id;
}

describe('a sidecar whose process is killed', () => {
  it('is found again by the client, with the session', async () => {
    const { call } = await session();
    await call('execute', { command: 'echo kept > a' });
    const { process_id } = await call<{ readonly process_id: string }>('start_process', { command: 'sleep 600' });
    await observed.sidecar.killNode();
    await observed.sidecar.serving();
    expect(await call('execute', { command: 'cat a' })).toMatchObject({ stdout: 'kept\n' });
    expect(await call('list_processes')).toEqual([expect.objectContaining({ process_id, status: 'running' })]);
    expect(await call('stop_process', { process_id })).toMatchObject({ status: 'stopped' });
  });
});

describe('answers', () => {
  it('have every field that the client reads', async () => {
    const { call } = await session();
    await call('file_create', { path: 'a.txt', content: 'one' });
    await call('execute', { command: PICTURE });
    const { process_id } = await call<{ readonly process_id: string }>('start_process', { command: 'cat' });
    const calls = [
      ['ls', {}],
      ['glob', { pattern: '*' }],
      ['grep', { pattern: 'one' }],
      ['view', { path: '.' }],
      ['read_image', { path: 'a.png' }],
      ['str_replace', { path: 'a.txt', old_str: 'one', new_str: 'two' }],
      ['present_files', { filepaths: ['a.txt'] }],
      ['send_process_input', { process_id, data: 'x' }],
      ['get_process_output', { process_id }],
      ['list_processes', {}],
      ['stop_process', { process_id }],
      ['interpreter_exec', { code: '1' }],
      ['watch_directory', { timeout_seconds: 0.1 }],
    ] as const;
    for (const [name, args] of calls) await call(name, args);
    const recorded = JSON.parse(
      readFileSync(join(import.meta.dirname, 'recordings', 'library.json'), 'utf8'),
    ) as Recordings['library'];
    const wanted = new Map<string, Set<string>>();
    for (const { request, status, reads } of recorded.calls.flatMap(({ requests }) => requests)) {
      if (status !== 200) continue;
      const fields = wanted.get(routeOf(request)) ?? new Set();
      for (const field of reads.filter((name) => !name.includes('s3_key'))) fields.add(field);
      wanted.set(routeOf(request), fields);
    }
    const faults: string[] = [];
    const looked = new Set<string>();
    for (const { method, url, status, answer } of seen.filter((exchange) => exchange.status === 200)) {
      const route = routeOf(`${method} ${url}`);
      for (const field of wanted.get(route) ?? []) {
        looked.add(`${route} ${field}`);
        if (!has(JSON.parse(answer), field.split('.'))) faults.push(`${route} ${status}: ${field}`);
      }
    }
    expect(faults).toEqual([]);
    expect(looked.size).toBeGreaterThan(30);
  });
});

/** A file of one pixel. */
const PICTURE =
  'echo iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg== | base64 -d > a.png';

/** Without the ids of what it is about, and without a query. */
function routeOf(request: string): string {
  return request.split('?', 1)[0]?.replace(/^(\w+ \/process\/)[^/]+(\/\w+)$/, '$1ID$2') ?? '';
}

/** Whether the field is there, in each element of a list. */
function has(value: unknown, [name, ...rest]: readonly string[]): boolean {
  if (name === undefined) return true;
  if (typeof value !== 'object' || value === null) return false;
  const list = name.endsWith('[]');
  const found = (value as Readonly<Record<string, unknown>>)[list ? name.slice(0, -2) : name];
  if (found === undefined) return false;
  if (list) return Array.isArray(found) && found.every((element) => has(element, rest));
  return has(found, rest);
}
