/** Tools of the published library that have to be asked for, over a real sidecar: those that work, and what the others get. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { ObservedLibrary } from './support/observed-library.ts';
import { ORGANIZATION } from './support/published.ts';

let observed: ObservedLibrary;

beforeAll(async () => {
  observed = await ObservedLibrary.start();
}, 120_000);

afterAll(() => observed[Symbol.asyncDispose]());

async function session(tools: Readonly<Record<string, boolean>>, more: Readonly<Record<string, unknown>> = {}) {
  await observed.library.createSession(randomUUID(), { tools, ...more });
  observed.proxy.take();
}

const use = (name: string, args: Readonly<Record<string, unknown>> = {}) => observed.library.tool(name, args);

describe('tools that work', () => {
  it('are scratch_memory', async () => {
    await session({ enable_scratch_memory: true });
    await use('scratch_memory', { operation: 'set', key: 'a', value: 'first note' });
    expect(await use('scratch_memory', { operation: 'get', key: 'a' })).toContain('first note');
    expect(await use('scratch_memory', { operation: 'list' })).toContain('a');
    await use('scratch_memory', { operation: 'delete', key: 'a' });
    expect(await use('scratch_memory', { operation: 'get', key: 'a' })).not.toContain('first note');
    expect(await use('scratch_memory', { operation: 'set', key: 'a', value: 'x'.repeat(65_537) })).toMatch(/^Error/);
  });

  it('are run_tests', async () => {
    await session({ enable_run_tests: true });
    const said = JSON.parse(await use('run_tests', { command: 'echo no report; exit 3' })) as Record<string, unknown>;
    expect(said).toMatchObject({ exit_code: 3, parsed: false });
  });

  it('are the git tools that need no network', async () => {
    await session({ enable_git_tools: true });
    await use('bash_tool', { command: 'git init -q repo; echo one > repo/a' });
    await use('git_add', { path: 'repo' });
    const author = { author_name: 'A', author_email: 'a@example.com' };
    expect(await use('git_commit', { path: 'repo', message: 'First one', ...author })).toContain('First one');
    await use('git_checkout', { path: 'repo', ref: 'other', create: true });
    expect(await use('git_status', { path: 'repo' })).toContain('other');
    expect(await use('git_clone', { url: 'https://example.invalid/x', path: 'x' })).toMatch(/^Error/);
  });

  it('are secret_env of bash_tool, whose values no answer shows', async () => {
    const value = randomUUID();
    const asked: string[] = [];
    const broker = createServer((request, response) => {
      asked.push(`${request.method} ${request.url} ${request.headers.authorization}`);
      request.resume();
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ value }));
    });
    broker.listen(0, '127.0.0.1');
    await once(broker, 'listening');
    onTestFinished(() => void broker.close());
    await session(
      { enable_secret_env: true },
      {
        secret_grants: [{ name: 'a-key', allowed_hosts: ['api.example.com'] }],
        secret_capability_token: 'capability',
        secrets_control_plane_url: `http://127.0.0.1:${(broker.address() as AddressInfo).port}`,
      },
    );
    const secret_env = { KEY: 'a-key', OTHER: 'not-granted' };
    const command = 'printf %s "$KEY" | wc -c; echo "$KEY $OTHER"';
    const said = await use('bash_tool', { command, secret_env });
    expect(said).toMatch(/^36\n/);
    expect(said).not.toContain(value);
    expect(asked).toEqual(['POST /internal/secrets/resolve Bearer capability']);
  });
});

describe('what is not there yet', () => {
  it.each([
    ['http_request', { method: 'GET', url: 'https://example.com/' }],
    ['pty_exec', { command: 'true' }],
    ['node_interpreter_exec', { code: '1' }],
    ['node_interpreter_reset', {}],
    ['lsp_start', { language: 'python' }],
    ['browser_navigate', { url: 'https://example.com/' }],
    ['browser_exec', { script: '1' }],
    ['browser_screenshot', {}],
    ['browser_close', {}],
  ])('%s is refused, and not asked for twice', async (name, args) => {
    const session_id = randomUUID();
    await observed.library.createSession(session_id);
    observed.proxy.take();
    await expect(observed.library.manager(name, { session_id, ...args })).rejects.toMatchObject({
      type: 'HTTPStatusError',
    });
    expect(observed.proxy.take().map(({ status }) => status)).toEqual([404]);
  });

  it('is a preview, whose refusal is passed on', async () => {
    const session_id = randomUUID();
    await observed.library.manager('create_session', { organization_id: ORGANIZATION, session_id });
    const args = { session_id, port: 3000, path: '/', method: 'GET' };
    expect(await observed.library.manager('proxy_preview_request', args)).toMatchObject({ status: 404 });
  });
});
