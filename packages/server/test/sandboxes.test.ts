import { v1 } from '@boxkite/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { openApiDocument } from '../src/openapi.ts';
import { TestDaemon, until } from './harness.ts';

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await TestDaemon.start();
});
afterAll(() => daemon.close());

const nothing = '00000000-0000-4000-8000-000000000000';

describe('sandboxes', () => {
  it('live from POST to DELETE', async () => {
    const made = await daemon.ok(v1.createdSandbox, 201, 'POST', '/v1/sandboxes', { body: { label: 'a', more: 1 } });
    expect(made).toMatchObject({
      status: 'active',
      state: 'ready',
      label: 'a',
      workspace: { kind: 'tmpfs', kept: true },
    });
    expect(made.usage).toMatchObject({ concurrent_sandboxes: 1, total_sandboxes_created: 1 });
    const path = `/v1/sandboxes/${made.id}`;
    expect(await daemon.ok(v1.sandbox, 200, 'GET', path)).toMatchObject({ id: made.id });
    const before = Date.parse(made.expires_at);
    const extended = await daemon.ok(v1.sandbox, 200, 'POST', `${path}/extend`, { body: { minutes: 5000 } });
    expect(Date.parse(extended.expires_at)).toBeGreaterThan(before);
    daemon.substrate.at = (step) =>
      step === 'destroy' ? new Promise((resolve) => setTimeout(resolve, 50)) : undefined;
    const deleted = await Promise.all(Array.from({ length: 10 }, () => daemon.call('DELETE', path)));
    expect(deleted.map(({ status, text }) => [status, text])).toEqual(Array(10).fill([204, '']));
    daemon.substrate.at = () => undefined;
    await daemon.refused(404, 'not_found', 'DELETE', path);
    expect(await daemon.ok(v1.sandbox, 200, 'GET', path)).toMatchObject({ status: 'destroyed', connect: null });
    await daemon.refused(404, 'not_found', 'POST', `${path}/exec`, { body: { command: 'true' } });
  });

  it('are made without a body, and several at once as an array', async () => {
    const one = await daemon.call('POST', '/v1/sandboxes');
    expect([one.status, typeof one.json.id]).toEqual([201, 'string']);
    const three = await daemon.ok(z.array(v1.createdSandbox), 201, 'POST', '/v1/sandboxes', { body: { count: 3 } });
    expect(new Set(three.map(({ id }) => id)).size).toBe(3);
    for (const { id } of [one.json, ...three]) await daemon.call('DELETE', `/v1/sandboxes/${id}`);
  });

  it('take a size as far as the machine enforces it, and what is asked for by name as it is', async () => {
    const specs: unknown[] = [];
    const start = daemon.substrate.start.bind(daemon.substrate);
    daemon.substrate.start = (spec, signal) => {
      specs.push({ memory_mb: spec.memory_mb, cpus: spec.cpus, workspace_mb: spec.workspace_mb });
      return start(spec, signal);
    };
    for (const body of [{}, { size: 'small' }, { size: 'large' }, { size: 'large', memory_mb: 8000, storage_gb: 2 }]) {
      await daemon.call('DELETE', `/v1/sandboxes/${await daemon.sandbox(body as v1.CreateSandboxBody)}`);
    }
    daemon.substrate.start = start;
    expect(specs).toEqual([
      { memory_mb: undefined, cpus: undefined, workspace_mb: undefined },
      { memory_mb: 1024, cpus: 1, workspace_mb: undefined },
      { memory_mb: 3000, cpus: 2, workspace_mb: undefined },
      { memory_mb: 8000, cpus: 2, workspace_mb: 2048 },
    ]);
  });

  it('stay within the ceilings of the operator, and are refused where more is asked for', async () => {
    const bounded = new TestDaemon();
    bounded.ceilings = { memory_mb: 512, cpus: 1.5, pids: 100, workspace_mb: 2048 };
    await bounded.open();
    const specs: unknown[] = [];
    const start = bounded.substrate.start.bind(bounded.substrate);
    bounded.substrate.start = (spec, signal) => {
      const { memory_mb, cpus, pids, workspace_mb, inodes } = spec;
      specs.push({ memory_mb, cpus, pids, workspace_mb, inodes });
      return start(spec, signal);
    };
    for (const body of [
      {},
      { size: 'large' as const },
      { memory_mb: 512, cpus: 0.5, pids: 10, storage_gb: 2, inodes: 64 },
    ])
      await bounded.sandbox(body);
    expect(specs).toEqual([
      { memory_mb: 512, cpus: 1.5, pids: 100, workspace_mb: 1024, inodes: undefined },
      { memory_mb: 512, cpus: 1.5, pids: 100, workspace_mb: 1024, inodes: undefined },
      { memory_mb: 512, cpus: 0.5, pids: 10, workspace_mb: 2048, inodes: 64 },
    ]);
    for (const body of [{ memory_mb: 513 }, { cpus: 1.6 }, { pids: 101 }, { workspace_mb: 2049 }, { storage_gb: 3 }])
      await bounded.refused(422, 'invalid_request', 'POST', '/v1/sandboxes', { body });
    expect(specs).toHaveLength(3);
    await bounded.close();
  });

  it.each([
    [{ secret_names: ['a'] }, 404, 'secret_not_found'],
    [{ mcp_connection_names: ['a'] }, 404, 'mcp_connection_not_found'],
    [{ image_id: 'a' }, 404, 'not_found'],
    [{ volume_mounts: { a: '/b' } }, 404, 'not_found'],
    [{ gpu_count: 1 }, 422, 'gpu_support_disabled'],
    [{ lifetime_minutes: 600_000 }, 422, 'invalid_request'],
    [{ lifetime_minutes: 0 }, 422, 'invalid_request'],
    [{ storage_gb: 0 }, 422, 'invalid_request'],
    [{ storage_gb: -1 }, 422, 'invalid_request'],
    [{ label: 7 }, 422, 'invalid_request'],
  ])('%j is refused and makes nothing', async (body, status, code) => {
    const before = daemon.substrate.running.size;
    await daemon.refused(status, code, 'POST', '/v1/sandboxes', { body });
    expect(daemon.substrate.running.size).toBe(before);
  });

  it('stop and start again where they have a disk', async () => {
    const id = await daemon.sandbox({ workspace: 'disk' });
    const path = `/v1/sandboxes/${id}`;
    await daemon.call('PUT', `${path}/files/content?path=kept`, { body: 'x' });
    expect(await daemon.ok(v1.sandbox, 200, 'POST', `${path}/stop`)).toMatchObject({ state: 'stopped' });
    const refused = await daemon.refused(409, 'sandbox_not_ready', 'POST', `${path}/exec`, {
      body: { command: 'true' },
    });
    expect(refused.json.error.details).toMatchObject({ state: 'stopped' });
    expect(await daemon.ok(v1.sandbox, 200, 'POST', `${path}/start`)).toMatchObject({ state: 'ready' });
    expect((await daemon.call('GET', `${path}/files/content?path=kept`)).text).toBe('x');
    await daemon.call('DELETE', path);
    const tmpfs = await daemon.sandbox();
    await daemon.refused(409, 'workspace_not_kept', 'POST', `/v1/sandboxes/${tmpfs}/stop`);
    await daemon.call('DELETE', `/v1/sandboxes/${tmpfs}`);
  });

  it('are listed whole, by pages, with usage, and without the dead', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) ids.push(await daemon.sandbox());
    const whole = await daemon.ok(v1.sandboxList, 200, 'GET', '/v1/sandboxes?active_only=true');
    expect(whole.map(({ id }) => id)).toEqual(ids);
    const everything = await daemon.ok(v1.sandboxList, 200, 'GET', '/v1/sandboxes?active_only=false');
    expect(everything.length).toBeGreaterThan(5);
    const measured = await daemon.ok(v1.sandboxList, 200, 'GET', '/v1/sandboxes?active_only=true&usage=true');
    expect(measured[0]?.usage).toEqual({ memory_bytes: 1024, cpu_ms: 2, processes: 1, execs: 0 });
    const paged: string[] = [];
    let next: string | undefined = '/v1/sandboxes?active_only=true&limit=2';
    let pages = 0;
    while (next !== undefined) {
      const page: Awaited<ReturnType<typeof daemon.call>> = await daemon.call('GET', next);
      paged.push(...page.json.map(({ id }: { id: string }) => id));
      next = /<([^>]+)>; rel="next"/.exec(String(page.headers['link'] ?? ''))?.[1];
      pages += 1;
    }
    expect([paged, pages]).toEqual([ids, 3]);
    await daemon.refused(422, 'invalid_request', 'GET', '/v1/sandboxes?limit=0');
    await daemon.refused(422, 'invalid_request', 'GET', '/v1/sandboxes?cursor=abc');
    for (const id of ids) await daemon.call('DELETE', `/v1/sandboxes/${id}`);
  });

  it('end with the client that leaves while they are made', async () => {
    const started = Promise.withResolvers<AbortSignal | undefined>();
    const released = Promise.withResolvers<void>();
    daemon.substrate.at = (step, _id, signal) => {
      if (step !== 'started') return undefined;
      started.resolve(signal);
      return released.promise;
    };
    const leaver = new AbortController();
    const call = daemon.call('POST', '/v1/sandboxes', { signal: leaver.signal });
    call.catch(() => undefined);
    const signal = await started.promise;
    leaver.abort();
    await until(() => signal?.aborted === true, 20_000);
    released.resolve();
    daemon.substrate.at = () => undefined;
    await expect(call).rejects.toThrow();
    await until(() => daemon.substrate.running.size === 0, 20_000);
  });

  it('that are too many are refused as both kinds of readers read it', async () => {
    const { status, json, headers } = await daemon.call('POST', '/v1/sandboxes', { body: { count: 10 } });
    expect(status).toBe(201);
    const ids = json.map(({ id }: { id: string }) => id);
    for (let n = 0; n < 4; n += 1) {
      const more = await daemon.call('POST', '/v1/sandboxes', { body: { count: 10 } });
      ids.push(...more.json.map(({ id }: { id: string }) => id));
    }
    const refused = await daemon.refused(429, 'concurrent_sandbox_limit_reached', 'POST', '/v1/sandboxes');
    expect(refused.json.detail.error).toEqual({
      code: 'concurrent_sandbox_limit_reached',
      message: refused.json.error.message,
    });
    expect(refused.json.error.details).toEqual({ limit: 50, active: 50 });
    expect([refused.headers['retry-after'], headers['retry-after']]).toEqual(['1', undefined]);
    await Promise.all(ids.map((id: string) => daemon.call('DELETE', `/v1/sandboxes/${id}`)));
  });
});

/** What a request needs beside its path to be valid, so that its sandbox is looked for. */
const needs: Readonly<Record<string, { readonly query?: string; readonly body?: unknown }>> = {
  'POST /extend': { body: { minutes: 1 } },
  'POST /exec': { body: { command: 'true' } },
  'POST /execs': { body: { command: 'true' } },
  'GET /execs/{eid}/output': { query: '?stream=stdout' },
  'POST /execs/{eid}/signal': { body: { all: true } },
  'POST /execs/{eid}/resize': { body: { columns: 1, rows: 1 } },
  'GET /files/content': { query: '?path=a' },
  'HEAD /files/content': { query: '?path=a' },
  'PUT /files/content': { query: '?path=a' },
  'DELETE /files': { query: '?path=a' },
  'POST /files': { body: { path: 'a', content: '' } },
  'POST /files/move': { body: { from: 'a', to: 'b' } },
  'POST /files/mkdir': { body: { path: 'a' } },
  'GET /files/stat': { query: '?path=a' },
  'GET /files/archive': { query: '?path=a' },
  'PUT /files/archive': { query: '?path=a' },
  'POST /processes': { body: { command: 'true', max_runtime_seconds: 1 } },
  'POST /processes/{eid}/input': { body: { data: 'a' } },
};
const onePath = '/v1/sandboxes/{id}';

interface Operation {
  readonly method: string;
  readonly rest: string;
}

/** All that can be done with one sandbox, by the document that is made from the routes. */
async function operations(): Promise<readonly Operation[]> {
  const document = z.object({ paths: z.record(z.string(), z.record(z.string(), z.unknown())) });
  const { paths } = document.parse(await openApiDocument());
  const found = Object.entries(paths)
    .filter(([path]) => path.startsWith(onePath))
    .flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => ({ method: method.toUpperCase(), rest: path.slice(onePath.length) })),
    );
  expect(found).toContainEqual({ method: 'GET', rest: '/execs/{eid}/attach' });
  expect(found).toContainEqual({ method: 'HEAD', rest: '/files/content' });
  return found;
}

function pathOf(rest: string, sandbox: string, eid: string): string {
  return `/v1/sandboxes/${sandbox}${rest.replace('{eid}', eid)}`;
}

/** The answer of one that is not there, as text. */
async function missing({ method, rest }: Operation, sandbox: string, eid: string, key: string): Promise<string> {
  const { query = '', body } = needs[`${method} ${rest}`] ?? {};
  const path = `${pathOf(rest, sandbox, eid)}${query}`;
  if (method !== 'HEAD') return (await daemon.refused(404, 'not_found', method, path, { key, body })).text;
  const { status, text } = await daemon.call(method, path, { key });
  expect(status, path).toBe(404);
  return text;
}

describe('a sandbox of another account', () => {
  it('is answered as one that is not there, by every route', async () => {
    const id = await daemon.sandbox();
    const eid = await daemon.exec(id, { command: 'hang' });
    const { key } = await otherKey('other');
    for (const operation of await operations()) {
      const foreign = await missing(operation, id, eid, key);
      expect(foreign, `${operation.method} ${operation.rest}`).toBe(await missing(operation, nothing, eid, key));
    }
    expect(await daemon.ok(v1.sandboxList, 200, 'GET', '/v1/sandboxes', { key })).toEqual([]);
    expect((await daemon.call('GET', `/v1/sandboxes/${id}/execs/${eid}`)).json.state).toBe('running');
    await daemon.call('DELETE', `/v1/sandboxes/${id}`);
  });

  it('is its own: made, listed, counted, used and destroyed by its keys', async () => {
    const { key } = await otherKey('team');
    const { key: stranger } = await otherKey('strangers');
    const made = await daemon.ok(v1.createdSandbox, 201, 'POST', '/v1/sandboxes', { key });
    expect(made.usage).toMatchObject({ concurrent_sandboxes: 1, total_sandboxes_created: 1 });
    const path = `/v1/sandboxes/${made.id}`;
    const run = { key, body: { command: 'echo mine' } };
    expect(await daemon.ok(v1.execAnswer, 200, 'POST', `${path}/exec`, run)).toMatchObject({ stdout: 'mine\n' });
    const { key: second } = await otherKey('team');
    for (const own of [key, second]) {
      const listed = await daemon.ok(v1.sandboxList, 200, 'GET', '/v1/sandboxes', { key: own });
      expect(listed.map(({ id }) => id)).toEqual([made.id]);
    }
    await daemon.refused(404, 'not_found', 'GET', path, { key: stranger });
    expect((await daemon.call('DELETE', path, { key })).status).toBe(204);
  });
});

describe('a sandbox that is destroyed', () => {
  it('is looked at, and is not there for everything else', async () => {
    const id = await daemon.sandbox();
    const eid = await daemon.exec(id, { command: 'hang' });
    expect((await daemon.call('DELETE', `/v1/sandboxes/${id}`)).status).toBe(204);
    const look = { method: 'GET', rest: '' };
    const all = await operations();
    expect(all).toContainEqual(look);
    for (const operation of all) {
      if (operation.method === look.method && operation.rest === look.rest) continue;
      const destroyed = await missing(operation, id, eid, daemon.key);
      const never = await missing(operation, nothing, eid, daemon.key);
      expect(destroyed, `${operation.method} ${operation.rest}`).toBe(never);
    }
    const { state } = await daemon.ok(v1.sandbox, 200, 'GET', `/v1/sandboxes/${id}`);
    expect(state).toBe('destroyed');
  });
});

function otherKey(account: string): Promise<v1.CreatedKey> {
  return daemon.ok(v1.createdKey, 201, 'POST', '/v1/api-keys', { body: { name: 'o', account } });
}
