/** Commands over the sidecar's wire: the budget, background processes, granted secrets, and what ends with a use. */
import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { daemonSettings, type Session, type SidecarSettings } from '@boxkite/sidecar/app';
import { sleep, within } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ControlPlane } from './support/control-plane.ts';
import { ServedSessions } from './support/served-sessions.ts';

let served: ServedSessions;

beforeAll(async () => {
  served = await ServedSessions.start();
  served.registry.add('none', await served.host.open('none'));
});

afterAll(() => served[Symbol.asyncDispose]());

/** What answers hold, as far as these tests look. */
interface Json {
  readonly error: { readonly code: string; readonly message: string; readonly details: { readonly field?: string } };
  readonly detail: { readonly used: number };
  readonly exec_id: string;
  readonly execs: readonly object[];
  readonly stdout: string;
  readonly stderr: string;
  readonly secret_env_omitted: readonly { readonly name: string; readonly reason: string }[];
  readonly process_id: string;
  readonly processes: readonly { readonly process_id: string }[];
  readonly started_at: string;
  readonly status: string;
  readonly stdout_chunk: string;
  readonly next_offset: number;
  readonly truncated: boolean;
  readonly bytes_written: number;
  readonly killed: number;
}

interface Called {
  readonly status: number;
  readonly json: Json;
  readonly text: string;
}

interface Client {
  readonly session: Session;
  post(url: string, body?: object): Promise<Called>;
  get(url: string): Promise<Called>;
  /** The next process of the same session. */
  reopen(): Promise<Client>;
}

type Limits = {
  readonly budget?: Partial<SidecarSettings['budget']>;
  readonly processes?: Partial<SidecarSettings['processes']>;
};

let count = 0;

/** Until it is so. */
async function until(done: () => Promise<boolean>): Promise<void> {
  await vi.waitFor(async () => expect(await done()).toBe(true), { timeout: within(15_000), interval: 20 });
}

async function open(limits: Limits = {}): Promise<Client> {
  count += 1;
  const settings = {
    ...daemonSettings,
    budget: { ...daemonSettings.budget, ...limits.budget },
    processes: { ...daemonSettings.processes, ...limits.processes },
  };
  return clientOf(`commands-${count}`, settings);
}

async function clientOf(name: string, settings: SidecarSettings): Promise<Client> {
  const { session, kill } = await served.host.openAlone(name, settings);
  const token = randomBytes(32).toString('base64url');
  served.registry.add(token, session);
  const call = async (method: string, url: string, body?: object): Promise<Called> => {
    const headers: Record<string, string> = { 'x-sidecar-auth-token': token };
    if (body !== undefined) headers['content-type'] = 'application/json';
    const answer = await fetch(served.base + url, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return { status: answer.status, json: (text.startsWith('{') ? JSON.parse(text) : {}) as Json, text };
  };
  return {
    session,
    post: (url, body) => call('POST', url, body),
    get: (url) => call('GET', url),
    reopen: async () => {
      served.registry.remove(token);
      await session.close();
      await kill();
      return clientOf(name, settings);
    },
  };
}

async function start(client: Client, command: string, more: object = {}): Promise<string> {
  const { status, json } = await client.post('/process/start', { command, max_runtime_seconds: 60, ...more });
  expect(status).toBe(201);
  return json.process_id;
}

/** The output from 0 on, once the process has ended. */
async function ended(client: Client, id: string): Promise<Json> {
  return outputOnce(client, id, 0, ({ status }) => status !== 'running');
}

/** The output from an offset on, once it is so. */
async function outputOnce(client: Client, id: string, since: number, done: (output: Json) => boolean): Promise<Json> {
  return vi.waitFor(
    async () => {
      const { json } = await client.get(`/process/${id}/output?since_offset=${since}`);
      expect(done(json)).toBe(true);
      return json;
    },
    { timeout: within(15_000), interval: 20 },
  );
}

async function aliveIn(client: Client, pattern: string): Promise<number> {
  // In an envelope of its own it sees no other one; files that they touch tell that they live.
  const { json } = await client.post('/exec', {
    command: `rm -f ${pattern}; sleep 0.3; ls ${pattern} 2>/dev/null | wc -l`,
  });
  return Number(json.stdout);
}

describe('the budget', () => {
  it('lets exactly as many calls through as it has, of twenty at once and of every kind', async () => {
    const client = await open({ budget: { execs: 5 }, processes: { running: 100 } });
    const calls = Array.from({ length: 20 }, (_, index) => {
      if (index % 4 === 0) return client.post('/process/start', { command: 'true', max_runtime_seconds: 5 });
      if (index % 4 === 1) return client.post('/execs', { command: 'true' });
      return client.post('/exec', { command: 'true' });
    });
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses.filter((status) => status < 300)).toHaveLength(5);
    expect(statuses.filter((status) => status === 403)).toHaveLength(15);
    const { json } = await client.post('/exec', { command: 'echo ran' });
    expect(json.detail).toEqual({
      error_type: 'session_budget_exceeded',
      reason: 'exec_count',
      limit: 5,
      used: 5,
      message: json.error.message,
    });
    expect(json.error).toMatchObject({ code: 'session_budget_exceeded', retryable: false });
    expect(json).not.toHaveProperty('exit_code');
    expect(json).not.toHaveProperty('stdout');
    // Nothing was started by those that were refused.
    expect((await client.get('/execs')).json.execs).toHaveLength(5);
  });

  it('counts nothing that is refused for what it is, and no reading', async () => {
    const client = await open({ budget: { execs: 1 } });
    for (const body of [
      { command: 'true' },
      { command: 'true', max_runtime_seconds: 0 },
      { command: 'true', max_runtime_seconds: 99_999 },
      { command: 'true', max_runtime_seconds: 5, expose_port: 8000 },
    ]) {
      expect((await client.post('/process/start', body)).status).toBeGreaterThanOrEqual(400);
    }
    await client.get('/process');
    await client.get('/execs');
    expect((await client.post('/exec', { command: 'true' })).status).toBe(200);
    expect((await client.post('/exec', { command: 'true' })).status).toBe(403);
  });

  it('refuses the result of the call that breaks it by its time, and ends what runs', async () => {
    const client = await open({ budget: { seconds: 0.5 } });
    await start(client, 'while :; do touch alive; sleep 0.02; done');
    await client.post('/execs', { command: 'while :; do touch alive; sleep 0.02; done' });
    const inFlight = client.post('/exec', { command: 'sleep 1.2; echo whole > in-flight' });
    const slow = await client.post('/exec', { command: 'sleep 0.7; echo result' });
    expect(slow.status).toBe(403);
    expect(slow.json.detail).toMatchObject({ reason: 'exec_seconds', limit: 0.5 });
    expect(slow.json.detail.used).toBeGreaterThan(0.7);
    expect(JSON.stringify(slow.json)).not.toContain('result');
    expect((await client.get('/process')).json.processes).toMatchObject([{ status: 'killed', exit_code: -9 }]);
    expect((await client.post('/process/start', { command: 'true', max_runtime_seconds: 5 })).status).toBe(403);
    // Who waits for its own end is told that it is spent, when that comes.
    expect((await inFlight).status).toBe(403);
    expect((await client.get('/files/content?path=in-flight')).text).toBe('whole\n');
    expect((await client.get('/execs')).json.execs).toMatchObject([
      { state: 'ended' },
      { state: 'ended' },
      { state: 'ended' },
      { state: 'ended' },
    ]);
    // The next use has a budget of its own.
    await client.post('/configure', { session_id: 'next' });
    expect((await client.get('/process')).json.processes).toEqual([]);
    expect((await client.post('/exec', { command: 'echo again' })).json.stdout).toBe('again\n');
    expect(await aliveIn(client, 'alive')).toBe(0);
  });

  it('goes on over a restart of this process: what it has counted, and that it is spent', async () => {
    let client = await open({ budget: { execs: 3 } });
    expect((await client.post('/exec', { command: 'true' })).status).toBe(200);
    client = await client.reopen();
    await start(client, 'sleep 100');
    client = await client.reopen();
    expect((await client.post('/exec', { command: 'true' })).status).toBe(200);
    expect((await client.post('/exec', { command: 'true' })).status).toBe(403);
    client = await client.reopen();
    expect((await client.post('/exec', { command: 'true' })).status).toBe(403);
    expect((await client.get('/process')).json.processes).toMatchObject([{ status: 'killed' }]);
    await client.post('/configure', {});
    expect((await client.post('/exec', { command: 'true' })).status).toBe(200);
  });
});

describe('background processes', () => {
  it('are started, listed, fed, followed by whole characters and stopped', async () => {
    const client = await open();
    const started = await client.post('/process/start', {
      command: 'echo begin; echo wrong >&2; while read x; do echo "got $x"; done; echo over',
      description: 'a reader',
      max_runtime_seconds: '60',
    });
    expect(started.status).toBe(201);
    expect(started.json.process_id).toMatch(/^proc_[0-9a-f]{32}$/);
    expect(started.json.status).toBe('running');
    const id = started.json.process_id;
    let output = await outputOnce(client, id, 0, ({ next_offset }) => next_offset === 12);
    // stdout and stderr in the order in which they were written.
    expect(output).toEqual({
      status: 'running',
      stdout_chunk: 'begin\nwrong\n',
      next_offset: 12,
      truncated: false,
      exit_code: null,
    });
    const input = 'one \u{1f600}\n';
    expect((await client.post(`/process/${id}/input`, { data: input })).json).toEqual({ bytes_written: 9 });
    output = await outputOnce(client, id, 12, ({ stdout_chunk }) => stdout_chunk !== '');
    expect(output.stdout_chunk).toBe('got one \u{1f600}\n');
    expect((await client.get(`/process/${id}/output?since_offset=-5`)).json.stdout_chunk).toContain('begin');
    expect((await client.get(`/process/${id}/output?since_offset=9999`)).json).toMatchObject({
      stdout_chunk: '',
      next_offset: output.next_offset,
      truncated: false,
    });
    expect((await client.get('/process')).json.processes).toMatchObject([
      {
        process_id: id,
        command: 'echo begin; echo wrong >&2; while read x; do echo "got $x"; done; echo over',
        description: 'a reader',
        status: 'running',
        started_at: started.json.started_at,
        exit_code: null,
        expose_port: null,
      },
    ]);
    expect((await client.post(`/process/${id}/close-stdin`)).status).toBe(204);
    expect(await ended(client, id)).toMatchObject({ status: 'exited', exit_code: 0 });
    const late = await client.post(`/process/${id}/input`, { data: 'x' });
    expect([late.status, late.json.error.code]).toEqual([409, 'exec_ended']);
    expect((await client.post(`/process/${id}/stop`)).json).toEqual({ status: 'exited', exit_code: 0 });
  });

  it.each([
    ['exit 7', { status: 'exited', exit_code: 7, stdout_chunk: '' }],
    ['echo "$0 $#"; false', { status: 'exited', exit_code: 1, stdout_chunk: '/bin/sh 0\n' }],
    ['', { status: 'exited', exit_code: 0 }],
    ['kill -TERM $$', { status: 'exited', exit_code: -15 }],
    ['no-such-program', { status: 'exited', exit_code: 127 }],
    ['echo \'a  b\' "$HOME"; echo \\\\', { stdout_chunk: 'a  b /workspace\n\\\n' }],
    ['sleep 100 & echo left', { status: 'exited', exit_code: 0, stdout_chunk: 'left\n' }],
    ['sleep 100', { status: 'killed', exit_code: -9 }, { max_runtime_seconds: 1 }],
  ])('%s', async (command, expected, more: object = {}) => {
    const client = await open();
    expect(await ended(client, await start(client, command, more))).toMatchObject(expected);
  });

  it('keep the newest bytes of their output, and say that others are gone', async () => {
    const client = await open({ processes: { outputBytes: 4096 } });
    const id = await start(client, 'i=0; while [ $i -lt 3000 ]; do echo "line $i \u00fc"; i=$((i+1)); done; sleep 100');
    const whole = Array.from({ length: 3000 }, (_, line) => `line ${line} \u00fc\n`).join('');
    const bytes = Buffer.byteLength(whole);
    const output = await outputOnce(client, id, 0, ({ next_offset }) => next_offset === bytes);
    expect(output.truncated).toBe(true);
    expect(whole.endsWith(output.stdout_chunk)).toBe(true);
    expect(Buffer.byteLength(output.stdout_chunk)).toBeGreaterThan(4090);
    expect(Buffer.byteLength(output.stdout_chunk)).toBeLessThanOrEqual(4096);
    expect((await client.post(`/process/${id}/stop`)).json).toEqual({ status: 'stopped', exit_code: -15 });
    expect((await client.get(`/process/${id}/output`)).json).toEqual({ ...output, status: 'stopped', exit_code: -15 });
  });

  it('give no half of a character to any poll', async () => {
    const client = await open();
    const id = await start(
      client,
      "for x in 1 2 3; do printf '\\360\\237'; sleep 0.1; printf '\\230\\200'; sleep 0.1; done; printf '\\360\\237'",
    );
    let [text, offset, status] = ['', 0, 'running'];
    while (status === 'running') {
      const { json } = await client.get(`/process/${id}/output?since_offset=${offset}`);
      text += json.stdout_chunk;
      ({ next_offset: offset, status } = json);
    }
    text += (await client.get(`/process/${id}/output?since_offset=${offset}`)).json.stdout_chunk;
    expect(text).toBe(`${'\u{1f600}'.repeat(3)}\ufffd`);
  });

  it('are as many at once as may be, also when all are asked for together', async () => {
    const client = await open({ processes: { running: 4 } });
    const answers = await Promise.all(
      Array.from({ length: 12 }, () =>
        client.post('/process/start', { command: 'sleep 100', max_runtime_seconds: 60 }),
      ),
    );
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([201, 201, 201, 201, ...Array.from({ length: 8 }, () => 429)]);
    const first = (await client.get('/process')).json.processes[0]?.process_id ?? '';
    await client.post(`/process/${first}/stop`);
    await start(client, 'true');
    expect((await client.post('/process/kill-all')).json.killed).toBeGreaterThanOrEqual(3);
    expect((await client.get('/process')).json).toEqual({ processes: [] });
    expect((await client.get(`/process/${first}/output`)).status).toBe(404);
    expect((await client.post('/process/kill-all')).json).toEqual({ killed: 0 });
  });

  it.each([
    ['stop', async (client: Client, id: string) => client.post(`/process/${id}/stop`)],
    ['kill-all', async (client: Client) => client.post('/process/kill-all')],
    ['configure', async (client: Client) => client.post('/configure', {})],
  ])('leave nothing alive after %s, daemons that ignore signals included', async (_, end) => {
    const client = await open({ processes: { graceSeconds: 1 } });
    const touch = 'trap "" TERM HUP INT; while :; do touch $1; sleep 0.02; done';
    const id = await start(
      client,
      `trap '' TERM; setsid sh -c '${touch}' x d1 & (setsid sh -c '${touch}' x d2 &) & ${touch.replace('$1', 'd3')}`,
    );
    await until(async () => (await aliveIn(client, 'd1 d2 d3')) === 3);
    const answer = await end(client, id);
    expect(answer.status).toBe(200);
    expect(await aliveIn(client, 'd1 d2 d3')).toBe(0);
  });

  it('that are stopped twice at once, or end by the signal in their own way, are stopped', async () => {
    const client = await open();
    const id = await start(client, "trap 'echo bye; exit 3' TERM; echo ready; while read x; do :; done");
    await until(async () => (await client.get(`/process/${id}/output`)).json.stdout_chunk === 'ready\n');
    const answers = await Promise.all([1, 2, 3].map(() => client.post(`/process/${id}/stop`)));
    expect(answers.map(({ json }) => json)).toEqual([1, 2, 3].map(() => ({ status: 'stopped', exit_code: 3 })));
    expect((await client.get(`/process/${id}/output`)).json.stdout_chunk).toBe('ready\nbye\n');
  });

  it('go on over a restart of this process, with their input, output and reasons', async () => {
    let client = await open();
    const id = await start(client, 'while read x; do echo "got $x"; done; sleep 100');
    const stopped = await start(client, 'sleep 100');
    await client.post(`/process/${stopped}/stop`);
    const counts = await start(client, 'sleep 0.5; wc -c');
    await client.post(`/process/${id}/input`, { data: 'one\n' });
    await until(async () => (await client.get(`/process/${id}/output`)).json.stdout_chunk === 'got one\n');
    client = await client.reopen();
    expect((await client.get('/process')).json.processes).toMatchObject([
      { process_id: id, status: 'running' },
      { process_id: stopped, status: 'stopped', exit_code: -15 },
      { process_id: counts, status: 'running' },
    ]);
    await client.post(`/process/${id}/input`, { data: 'two\n' });
    await until(
      async () => (await client.get(`/process/${id}/output?since_offset=8`)).json.stdout_chunk === 'got two\n',
    );
    // Closed is closed: also before all of it is read, and by a process that has ended since.
    await client.post(`/process/${counts}/input`, { data: '!'.repeat(1_000_000) });
    expect((await client.post(`/process/${counts}/close-stdin`)).status).toBe(204);
    client = await client.reopen();
    expect((await ended(client, counts)).stdout_chunk.trim()).toBe('1000000');
    expect((await client.post(`/process/${id}/stop`)).json.status).toBe('stopped');
  });

  it('that do not read their input keep nobody waiting, and are told what they got', async () => {
    const client = await open();
    const id = await start(client, 'sleep 100');
    const data = 'x'.repeat(4_000_000);
    const { status, json } = await client.post(`/process/${id}/input`, { data });
    expect(status).toBe(200);
    expect(json.bytes_written).toBeGreaterThan(0);
    expect(json.bytes_written).toBeLessThan(data.length);
    const begun = performance.now();
    expect((await client.get(`/process/${id}/output`)).status).toBe(200);
    expect((await client.post(`/process/${id}/stop`)).json.status).toBe('stopped');
    expect(performance.now() - begun).toBeLessThan(5000);
    const whole = await start(client, 'wc -c');
    expect((await client.post(`/process/${whole}/input`, { data })).json).toEqual({ bytes_written: data.length });
    await client.post(`/process/${whole}/close-stdin`);
    expect((await ended(client, whole)).stdout_chunk.trim()).toBe(String(data.length));
  });

  it('that have ended are kept in a bounded number, the newest ones', async () => {
    const client = await open({ processes: { running: 1000 } });
    const ids: string[] = [];
    for (let round = 0; round < 13; round += 1) {
      ids.push(...(await Promise.all(Array.from({ length: 10 }, () => start(client, 'true')))));
      for (const id of ids.slice(-10)) await ended(client, id);
    }
    const listed = (await client.get('/process')).json.processes.map(({ process_id }) => process_id);
    expect(listed.length).toBeLessThanOrEqual(111);
    expect(listed.slice(-10).sort()).toEqual(ids.slice(-10).sort());
    expect((await client.get(`/process/${ids[0]}/output`)).status).toBe(404);
  });

  it('refuse what they can not do in words', async () => {
    const client = await open();
    const port = await client.post('/process/start', { command: 'true', max_runtime_seconds: 5, expose_port: 8000 });
    expect([port.status, port.json.error.code, port.json.error.details.field]).toEqual([
      501,
      'unsupported',
      'expose_port',
    ]);
    for (const max_runtime_seconds of [0, -1, 14_401]) {
      const { status, json } = await client.post('/process/start', { command: 'true', max_runtime_seconds });
      expect([status, json.error.code, typeof json.detail]).toEqual([400, 'bad_request', 'string']);
    }
    for (const body of [
      { command: 'true' },
      { command: 'true', max_runtime_seconds: 1.5 },
      { command: 5, max_runtime_seconds: 1 },
    ]) {
      expect((await client.post('/process/start', body)).status).toBe(422);
    }
    const id = (await client.post('/execs', { command: 'sleep 100' })).json.exec_id;
    for (const unknown of ['proc_0', `proc_${'0'.repeat(32)}`, id]) {
      const { status, json } = await client.post(`/process/${unknown}/stop`);
      expect([status, json.detail]).toEqual([404, 'there is no such process']);
    }
  });
});

describe('granted secrets', () => {
  it('are given to the command that names them, and shown as their names', async () => {
    await using plane = await ControlPlane.start();
    plane.values = { API_TOKEN: 'value-of-the-token-1', OTHER: 'the-other-value-22' };
    const client = await open();
    const granted = {
      session_id: 's1',
      secret_names: ['API_TOKEN', 'GONE'],
      secret_allowed_hosts: { API_TOKEN: ['api.example'] },
      secret_capability_token: 'capability-1',
      secrets_control_plane_url: `${plane.url}/`,
    };
    expect((await client.post('/configure', granted)).status).toBe(200);
    expect(plane.asked).toEqual([]);
    const { json } = await client.post('/exec', {
      command:
        'echo "$T"; echo "$T" | base64; echo "$T" >&2; echo "[$O][$G][$LD_PRELOAD]"; env | grep -c ^T=value; cat /proc/$$/cmdline | wc -c',
      secret_env: {
        T: 'API_TOKEN',
        O: 'OTHER',
        G: 'GONE',
        LD_PRELOAD: 'API_TOKEN',
        'A=B': 'API_TOKEN',
        '1x': 'API_TOKEN',
        '': 'API_TOKEN',
      },
    });
    const label = '[REDACTED_SECRET:API_TOKEN]';
    expect(json.stdout.split('\n').slice(0, 4)).toEqual([label, expect.stringContaining(label), '[][][]', '1']);
    expect(json.stderr).toBe(`${label}\n`);
    expect(json.stdout + json.stderr).not.toContain('value-of-the-token');
    const omitted = [...json.secret_env_omitted].sort((a, b) => (a.name < b.name ? -1 : 1));
    expect(omitted).toEqual([
      { name: '', reason: 'name_refused' },
      { name: '1x', reason: 'name_refused' },
      { name: 'A=B', reason: 'name_refused' },
      { name: 'G', reason: 'unresolved' },
      { name: 'LD_PRELOAD', reason: 'name_refused' },
      { name: 'O', reason: 'not_granted' },
    ]);
    expect(plane.asked.map(({ body }) => body)).toEqual(
      expect.arrayContaining([
        { session_id: 's1', secret_name: 'API_TOKEN' },
        { session_id: 's1', secret_name: 'GONE' },
      ]),
    );
    expect(plane.asked).toHaveLength(2);
    expect(plane.asked[0]).toMatchObject({
      method: 'POST',
      url: '/internal/secrets/resolve',
      headers: { authorization: 'Bearer capability-1' },
    });
    // The one after it has no secret, and shows none that a file has kept.
    expect((await client.post('/exec', { command: 'echo "[$T]"; echo value-of-the-token-1' })).json).toMatchObject({
      stdout: `[]\n${label}\n`,
      secret_env_omitted: [],
    });
    const started = await client.post('/execs', { command: 'echo $T', secret_env: { T: 'API_TOKEN', U: 'OTHER' } });
    expect(started.json.secret_env_omitted).toEqual([{ name: 'U', reason: 'not_granted' }]);
    expect(JSON.stringify(started.json)).not.toContain('value-of-the-token');
    const { text } = await client.get(`/execs/${started.json.exec_id}/output?stream=stdout&follow=true`);
    expect(text).toBe(`${label}\n`);
    expect(plane.asked).toHaveLength(2);
  });

  it('are forgotten by configure, also when one is being asked for', async () => {
    await using plane = await ControlPlane.start();
    plane.values = { TOKEN: 'first-value-1234' };
    const client = await open();
    const granted = {
      secret_names: ['TOKEN'],
      secret_capability_token: 'capability',
      secrets_control_plane_url: plane.url,
    };
    await client.post('/configure', { ...granted, session_id: 'a' });
    const print = { command: 'echo "$T" > kept; echo "$T" | tr a-z A-Z', secret_env: { T: 'TOKEN' } };
    expect((await client.post('/exec', print)).json.stdout).toBe('FIRST-VALUE-1234\n');
    plane.values = { TOKEN: 'second-value-5678' };
    await client.post('/configure', { ...granted, session_id: 'b' });
    expect((await client.post('/exec', print)).json.stdout).toBe('SECOND-VALUE-5678\n');
    const asked = Promise.withResolvers<() => void>();
    plane.answer = (_, response) => asked.resolve(() => response.end(JSON.stringify({ value: 'late-value-9999' })));
    await client.post('/configure', { ...granted, session_id: 'c' });
    const late = client.post('/exec', { command: 'echo ran > ran', secret_env: { T: 'TOKEN' } });
    const answer = await asked.promise;
    await client.post('/configure', { session_id: 'd' });
    answer();
    expect((await late).json.error.code).toBe('generation_gone');
    expect(
      (await client.post('/exec', { command: 'ls -A; echo "[$T]"', secret_env: { T: 'TOKEN' } })).json,
    ).toMatchObject({
      stdout: '[]\n',
      secret_env_omitted: [{ name: 'T', reason: 'not_granted' }],
    });
  });

  it('that can not be had are left out, and said, whatever the control plane answers', async () => {
    await using plane = await ControlPlane.start();
    const client = await open();
    await client.post('/configure', {
      secret_names: ['TOKEN'],
      secret_capability_token: 'capability',
      secrets_control_plane_url: plane.url,
    });
    const answers: ((response: ServerResponse) => void)[] = [
      (response) => response.writeHead(500).end('x'),
      (response) => response.writeHead(302, { location: `${plane.url}/elsewhere` }).end(),
      (response) => response.end('not json'),
      (response) => response.end('{"value":5}'),
      (response) => response.end('{"value":"a\\u0000b"}'),
      (response) => response.end(JSON.stringify({ value: 'x'.repeat(20_000) })),
      (response) => response.end(Buffer.alloc(2_000_000, ' ')),
      (response) => response.destroy(),
    ];
    for (const answer of answers) {
      plane.asked.length = 0;
      plane.answer = (_, response) => answer(response);
      const { status, json } = await client.post('/exec', { command: 'echo "[$T]"', secret_env: { T: 'TOKEN' } });
      expect([status, json.stdout, json.secret_env_omitted]).toEqual([
        200,
        '[]\n',
        [{ name: 'T', reason: 'unresolved' }],
      ]);
      expect(plane.asked).toHaveLength(1);
    }
  });

  it.each([
    ['secrets_control_plane_url', 'file:///etc/passwd'],
    ['secrets_control_plane_url', 'http://user:password@plane.example'],
    ['secrets_control_plane_url', 'plane.example'],
    ['secret_capability_token', 'two\r\nlines: yes'],
    ['secret_names', ['a\0b']],
    ['secret_names', Array.from({ length: 300 }, (_, index) => `N${index}`)],
  ])('are not granted by %s %j', async (field, value) => {
    const client = await open();
    const { status, json } = await client.post('/configure', { [field]: value });
    expect([status, json.error.code]).toEqual([422, 'invalid_request']);
    expect(JSON.stringify(json)).not.toContain('password');
  });
});

describe('a use that ends', () => {
  it('takes with it what was asked for in it, however late that comes', async () => {
    const client = await open();
    await client.post('/configure', { session_id: 'a' });
    const started: Promise<Called>[] = [];
    for (let round = 0; round < 20; round += 1) {
      started.push(
        client.post('/process/start', { command: 'while :; do touch late; sleep 0.01; done', max_runtime_seconds: 60 }),
        client.post('/execs', { command: 'while :; do touch late; sleep 0.01; done' }),
        client.post('/exec', { command: 'sleep 0.05; touch late' }),
      );
      if (round === 10) await client.post('/configure', { session_id: 'b' });
    }
    await client.post('/configure', { session_id: 'c' });
    const answers = await Promise.all(started);
    for (const { status, json } of answers) {
      if (status >= 400) expect(['generation_gone', 'capacity']).toContain(json.error.code);
    }
    await sleep(100);
    expect((await client.get('/process')).json.processes).toEqual([]);
    expect((await client.get('/execs')).json.execs).toEqual([]);
    expect(await aliveIn(client, 'late')).toBe(0);
  });

  it('bounds the time that a command may ask for', async () => {
    const client = await open();
    for (const timeout of [86_401, 1e15]) {
      expect((await client.post('/exec', { command: 'true', timeout })).status).toBe(422);
    }
    expect((await client.post('/exec', { command: 'true', timeout: 86_400 })).status).toBe(200);
  });
});
