/** `boxkite sidecar` as an operator starts and ends it, and every way in which one of its processes can end. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { connect as netConnect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { connect as tlsConnect } from 'node:tls';
import {
  boxkite,
  eventually,
  lane,
  launchSidecar,
  makeDataDirectory,
  makeTlsPair,
  processes,
  processesOf,
  sleep,
  startSidecar,
  type TestSidecar,
  unlessGone,
  within,
} from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { z } from 'zod';
import { ControlPlane } from './support/control-plane.ts';

const execAnswer = z.object({ exit_code: z.number(), stdout: z.string(), exec_id: z.string() });
const health = z.object({ status: z.string(), session_id: z.string().nullable(), idle_seconds: z.number() });
const started = z.object({ exec_id: z.string() });
const errorBody = z.object({ error: z.object({ code: z.string(), message: z.string(), hint: z.string() }) });
const listed = z.object({ execs: z.array(z.object({ exec_id: z.string(), state: z.string() })) });

const PLACEHOLDER = 'CHANGEME-generate-a-random-per-pod-secret-see-comment-above';
const LONG = within(120_000);
const base = mkdtempSync(join(tmpdir(), 'boxkite-sidecar-test-'));
chmodSync(base, 0o755);
afterAll(() => rmSync(base, { recursive: true, force: true }));

async function run(sidecar: TestSidecar, command: string): Promise<z.infer<typeof execAnswer>> {
  const answer = await sidecar.call('POST', '/exec', { body: { command } });
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  return execAnswer.parse(JSON.parse(text));
}

async function start(sidecar: TestSidecar, body: object, token?: string): Promise<string> {
  const answer = await sidecar.call('POST', '/execs', { body, token });
  const text = await answer.text();
  expect(answer.status, text).toBe(201);
  return started.parse(JSON.parse(text)).exec_id;
}

/** Bytes of a stream from an offset; resolves when the answer ends, however it does. */
/** `begun` is called as soon as some of it is there. */
async function follow(
  sidecar: TestSidecar,
  id: string,
  offset: number,
  begun: () => void = () => undefined,
): Promise<Buffer> {
  const path = `/execs/${id}/output?stream=stdout&follow=true&offset=${offset}`;
  const answer = await sidecar.call('GET', path);
  expect(answer.status).toBe(200);
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of answer.body ?? []) {
      chunks.push(chunk as Uint8Array);
      begun();
    }
  } catch {
    // Its other end was killed.
  }
  return Buffer.concat(chunks);
}

function family(sidecar: TestSidecar): readonly number[] {
  return [sidecar.pid, ...processesOf(sidecar.pid, '/nonexistent').map(({ pid }) => pid)];
}

function living(pids: readonly number[]): readonly string[] {
  const wanted = new Set(pids);
  return processes()
    .filter(({ pid, state }) => wanted.has(pid) && state !== 'Z')
    .map(({ pid, name }) => `${pid} ${name}`);
}

describe(`a sidecar that serves, ${lane}`, () => {
  let sidecar: TestSidecar;
  beforeAll(async () => {
    sidecar = await startSidecar({ token: '  spaces-do-not-count  ' });
  }, LONG);
  afterAll(() => sidecar[Symbol.asyncDispose]());
  const token = 'spaces-do-not-count';

  it('runs a command for whoever shows the token, and tells others that it is healthy', async () => {
    const answer = await sidecar.call('POST', '/exec', { token, body: { command: 'echo "$PWD"' } });
    expect(execAnswer.parse(await answer.json())).toMatchObject({ exit_code: 0, stdout: '/workspace\n' });
    const { status, session_id, idle_seconds } = health.parse(
      await (await sidecar.call('GET', '/health', { token: null })).json(),
    );
    expect([status, session_id]).toEqual(['healthy', null]);
    expect(idle_seconds).toBeGreaterThanOrEqual(0);
    for (const wrong of [null, 'wrong', `${token}x`]) {
      const refused = await sidecar.call('POST', '/exec', { token: wrong, body: { command: 'true' } });
      expect(refused.status).toBe(401);
      errorBody.parse(await refused.json());
    }
  });

  it('counts neither as use nor in metrics what shows no token', async () => {
    await sidecar.call('GET', '/execs', { token });
    await sleep(1200);
    const idle = async () =>
      health.parse(await (await sidecar.call('GET', '/health', { token: null })).json()).idle_seconds;
    const before = await idle();
    expect(before).toBeGreaterThan(0);
    for (let at = 0; at < 20; at += 1)
      await sidecar.call('GET', `/stranger-${at}`, { token: at % 2 === 0 ? null : 'wrong' });
    expect(await idle()).toBeGreaterThanOrEqual(before);
    const metrics = await sidecar.call('GET', '/metrics', { token });
    expect(metrics.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(await metrics.text()).not.toContain('stranger');
    for (let at = 0; at < 20; at += 1) await sidecar.call('GET', `/execs/known-${at}`, { token });
    for (let at = 0; at < 20; at += 1) await sidecar.call('GET', `/nowhere-${at}`, { token });
    const text = await (await sidecar.call('GET', '/metrics', { token })).text();
    expect(text).toMatch(/^boxxkite_sidecar_requests_total\{route="\/execs\/:eid"\} 20$/m);
    expect(text).toMatch(/^boxxkite_sidecar_request_errors_total\{route="unmatched"\} 20$/m);
    expect(text).not.toMatch(/known-|nowhere-|stranger-/);
    expect(await idle()).toBe(0);
  });

  it('is in use while somebody is attached by a WebSocket', async () => {
    const id = await start(sidecar, { command: 'sleep 2' }, token);
    const socket = new WebSocket(`ws://127.0.0.1:${sidecar.port}/execs/${id}/attach`, {
      headers: { 'x-sidecar-auth-token': token },
    });
    await once(socket, 'open');
    const closed = once(socket, 'close');
    await sleep(1500);
    const { idle_seconds } = health.parse(await (await sidecar.call('GET', '/health', { token: null })).json());
    expect(idle_seconds).toBe(0);
    await closed;
  });

  it('has its token in no argument and no environment of a process', () => {
    for (const pid of family(sidecar)) {
      const read = (name: string): string => unlessGone(() => readFileSync(`/proc/${pid}/${name}`, 'latin1'), '');
      expect(read('cmdline')).not.toContain(token);
      // Another user's environment is not for us to read, and what can't be read holds no secret of ours by accident.
      if (lane === 'root') expect(read('environ')).not.toMatch(/SIDECAR|spaces/);
    }
    const path = join(sidecar.places.runtime, `run-${sidecar.pid}`, 'sidecar.json');
    expect(statSync(path).mode & 0o777).toBe(0o400);
    if (lane === 'root') expect(statSync(path).uid).not.toBe(0);
  });

  it('makes one sandbox and no more', async () => {
    const envelopes = processes().filter(({ parent }) => parent === sidecar.pid).length;
    await sidecar.call('POST', '/exec', { token, body: { command: 'true' } });
    expect(processes().filter(({ parent }) => parent === sidecar.pid).length).toBeLessThanOrEqual(envelopes + 1);
  });

  it('refuses a second one of its data, and a daemon of it', { timeout: LONG }, async () => {
    await using second = await launchSidecar({ data: sidecar.places.data });
    expect(await second.whenEnded()).toEqual({ code: 2, signal: null });
    expect(second.log.join('')).toContain('(already_running)');
    const daemon = await boxkite(['serve', '--data', sidecar.places.data]);
    expect([daemon.status, daemon.stderr]).toEqual([2, expect.stringContaining('(data_unusable)')]);
    expect((await sidecar.call('GET', '/health')).status).toBe(200);
  });

  it('is one of several, which know nothing of each other', { timeout: LONG }, async () => {
    await using other = await startSidecar({ token: 'other' });
    await run(other, 'echo other >/workspace/file');
    const here = await sidecar.call('POST', '/exec', { token, body: { command: 'cat /workspace/file' } });
    expect(execAnswer.parse(await here.json()).exit_code).not.toBe(0);
    expect((await sidecar.call('GET', '/execs', { token: other.token })).status).toBe(401);
  });

  it('is harmed by no idle sockets, and by no reader of a byte each second', { timeout: LONG }, async () => {
    const command = 'head -c 8000000 /dev/zero | tr "\\0" x; sleep 100';
    const id = await start(sidecar, { command }, token);
    const sockets: Socket[] = [];
    try {
      for (let at = 0; at < 500; at += 1) {
        const socket = netConnect(sidecar.port, '127.0.0.1');
        socket.on('error', () => undefined);
        sockets.push(socket);
      }
      const slow = netConnect(sidecar.port, '127.0.0.1');
      sockets.push(slow);
      slow.on('error', () => undefined);
      slow.write(
        `GET /execs/${id}/output?stream=stdout&follow=true HTTP/1.1\r\nhost: x\r\nx-sidecar-auth-token: ${token}\r\n\r\n`,
      );
      slow.pause();
      const reading = setInterval(() => void slow.read(1), 1000);
      const times: number[] = [];
      for (let at = 0; at < 20; at += 1) {
        const begin = performance.now();
        expect((await sidecar.call('POST', '/exec', { token, body: { command: 'true' } })).status).toBe(200);
        times.push(performance.now() - begin);
      }
      clearInterval(reading);
      times.sort((a, b) => a - b);
      expect(times[10]).toBeLessThan(within(500));
    } finally {
      for (const socket of sockets) socket.destroy();
      await sidecar.call('POST', `/execs/${id}/signal`, { token, body: { signal: 'SIGKILL' } });
    }
  });
});

describe(`a sidecar without a token, ${lane}`, () => {
  it.each([
    ['none', null, {}],
    ['blank', '  ', {}],
    ['the placeholder', PLACEHOLDER, {}],
    ['a file with the placeholder', 'unused', { SIDECAR_AUTH_TOKEN_FILE: join(base, 'placeholder') }],
  ] as const)('serves health and refuses all else: %s', { timeout: LONG }, async (_what, token, more) => {
    writeFileSync(join(base, 'placeholder'), `${PLACEHOLDER}\n`, { mode: 0o600 });
    await using sidecar = await startSidecar({ token, env: { SIDECAR_TLS_DISABLED: 'true', ...more } });
    for (const path of ['/exec', '/configure', '/nowhere']) {
      const answer = await sidecar.call('POST', path, { token: token ?? 'x', body: {} });
      expect([path, answer.status]).toEqual([path, 503]);
      expect(errorBody.parse(await answer.json()).error.code).toBe('not_configured');
    }
    expect((await sidecar.call('GET', '/health', { token: null })).status).toBe(200);
    expect(sidecar.log.join('')).toContain('no token is set');
  });

  it('reads it from a file, which is before the variable', { timeout: LONG }, async () => {
    const path = join(base, 'token');
    writeFileSync(path, '\n from-a-file \n', { mode: 0o600 });
    await using sidecar = await startSidecar({
      token: 'from-the-variable',
      env: { SIDECAR_TLS_DISABLED: 'true', SIDECAR_AUTH_TOKEN_FILE: path },
    });
    expect((await sidecar.call('GET', '/execs', { token: 'from-the-variable' })).status).toBe(401);
    expect((await sidecar.call('GET', '/execs', { token: 'from-a-file' })).status).toBe(200);
  });
});

describe(`a sidecar that can't be, ${lane}`, () => {
  it.each([
    ['clear text that was not asked for', {}, /there is no TLS key pair/],
    [
      'clear text by another word',
      { SIDECAR_TLS_DISABLED: '1' },
      /there is no TLS key pair.*\nhint: .*no other word means it/,
    ],
    [
      'half a number',
      { SIDECAR_TLS_DISABLED: 'true', SIDECAR_GREP_TIMEOUT_SECONDS: '1.5' },
      /SIDECAR_GREP_TIMEOUT_SECONDS/,
    ],
    [
      'no number',
      { SIDECAR_TLS_DISABLED: 'true', SANDBOX_SESSION_MAX_EXEC_COUNT: 'many' },
      /SANDBOX_SESSION_MAX_EXEC_COUNT/,
    ],
    [
      'less than the floor',
      { SIDECAR_TLS_DISABLED: 'true', INTERPRETER_MAX_MEMORY_MB: '63' },
      /INTERPRETER_MAX_MEMORY_MB.*at least 64/,
    ],
    ['a port that is none', { SIDECAR_TLS_DISABLED: 'true', SIDECAR_PORT: '0' }, /SIDECAR_PORT/],
    [
      'a token that no header carries',
      { SIDECAR_TLS_DISABLED: 'true', SIDECAR_AUTH_TOKEN: 'sl\u00fcssel-secret' },
      /SIDECAR_AUTH_TOKEN holds/,
    ],
    [
      'a file of a token that is not there',
      { SIDECAR_TLS_DISABLED: 'true', SIDECAR_AUTH_TOKEN_FILE: '/nonexistent' },
      /SIDECAR_AUTH_TOKEN_FILE/,
    ],
  ] as const)('is refused in one sentence, with a hint: %s', async (_what, env, message) => {
    const clear = 'SIDECAR_TLS_DISABLED' in env && env.SIDECAR_TLS_DISABLED === 'true';
    const words = clear ? [] : ['--tls-dir', join(base, 'nothing')];
    const { status, stderr } = await boxkite(['sidecar', '--data', join(base, 'refused'), ...words], env);
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/\nhint: .+\n$/);
    expect(stderr).not.toContain('secret');
    expect(stderr.trimEnd().split('\n')).toHaveLength(2);
  });

  // Root can limit memory everywhere that these tests run.
  if (lane !== 'root')
    it('leaves no token behind where it is not started again', async () => {
      await using sidecar = await launchSidecar({ args: ['--memory', '64'], token: 'a-token-to-forget' });
      expect((await sidecar.whenEnded()).code).toBe(78);
      const config = join(sidecar.places.runtime, `run-${sidecar.pid}`, 'sidecar.json');
      expect(readFileSync(config, 'utf8')).toBe('');
    });

  it('has half a key pair, or a word for clear text beside one', async () => {
    const directory = join(base, 'half');
    const { certificate, key } = makeTlsPair(directory);
    rmSync(key);
    const half = await boxkite(['sidecar', '--data', join(base, 'refused'), '--tls-dir', directory]);
    expect([half.status, half.stderr]).toEqual([2, expect.stringContaining(`${key} can't be found`)]);
    const both = await boxkite(
      ['sidecar', '--data', join(base, 'refused'), '--tls-cert', certificate, '--tls-key', key],
      {
        SIDECAR_TLS_DISABLED: 'true',
      },
    );
    expect([both.status, both.stderr]).toEqual([2, expect.stringContaining('SIDECAR_TLS_DISABLED is true')]);
  });
});

describe(`TLS, ${lane}`, () => {
  let sidecar: TestSidecar;
  const directory = join(base, 'pair');
  beforeAll(async () => {
    makeTlsPair(directory);
    makeTlsPair(join(base, 'other-pair'));
    sidecar = await launchSidecar({ args: ['--tls-dir', directory], env: {} });
    await eventually(
      () =>
        handshake(directory)
          .then(() => true)
          .catch(() => false),
      within(60_000),
      () => sidecar.log.join(''),
    );
  }, LONG);
  afterAll(() => sidecar[Symbol.asyncDispose]());

  function handshake(trusted: string, version?: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3'): Promise<string | null> {
    return new Promise((resolve, reject) => {
      const socket = tlsConnect({
        host: '127.0.0.1',
        port: sidecar.port,
        ca: readFileSync(join(trusted, 'tls.crt')),
        checkServerIdentity: () => undefined,
        ...(version === undefined ? {} : { minVersion: version, maxVersion: version }),
      });
      socket.once('error', reject);
      socket.once('secureConnect', () => {
        resolve(socket.getProtocol());
        socket.destroy();
      });
    });
  }

  it('is 1.3, 1.2 for who has no better, and no less', async () => {
    expect(await handshake(directory)).toBe('TLSv1.3');
    expect(await handshake(directory, 'TLSv1.2')).toBe('TLSv1.2');
    await expect(handshake(directory, 'TLSv1.1')).rejects.toThrow();
  });

  it('fails for a client that has pinned another certificate', async () => {
    await expect(handshake(join(base, 'other-pair'))).rejects.toThrow(/self-signed|verif/i);
  });

  it('answers no HTTP in clear text, and HTTPS with the token', async () => {
    await expect(sidecar.call('GET', '/health')).rejects.toThrow();
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const sent = httpsRequest(
        {
          ...{ host: '127.0.0.1', port: sidecar.port, path: '/execs', agent: false },
          ca: readFileSync(join(directory, 'tls.crt')),
          checkServerIdentity: () => undefined,
          headers: { 'x-sidecar-auth-token': sidecar.token },
        },
        (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        },
      );
      sent.once('error', reject);
      sent.end();
    });
    expect(status).toBe(200);
  });
});

describe(`kill -9, ${lane}`, () => {
  it('of Node ends no command, and loses no output, redaction, generation or budget', { timeout: LONG }, async () => {
    await using plane = await ControlPlane.start();
    plane.values = { api: 'first-half-and-second' };
    await using sidecar = await startSidecar({
      env: { SIDECAR_TLS_DISABLED: 'true', SANDBOX_SESSION_MAX_EXEC_COUNT: '6' },
    });
    const configuration = {
      ...{ session_id: 'kept', generation: 7, secret_names: ['api'] },
      ...{ secret_capability_token: 'capability', secrets_control_plane_url: plane.url },
    };
    const configured = await sidecar.call('POST', '/configure', { body: configuration });
    expect(configured.status, await configured.clone().text()).toBe(200);
    // Node is killed between the halves of the value, too.
    const command =
      'half=$(printf %s "$KEY" | head -c 10); i=0; while [ $i -lt 60 ]; do printf "%s" "line $i $half"; sleep 0.05; echo "-and-second"; i=$((i+1)); done';
    const id = await start(sidecar, { command, secret_env: { KEY: 'api' } });
    let output = Buffer.alloc(0);
    for (let kills = 0; kills < 3; kills += 1) {
      const begun = Promise.withResolvers<void>();
      const following = follow(sidecar, id, output.length, begun.resolve);
      await Promise.race([begun.promise, following]);
      await sleep(300 + 400 * kills);
      await sidecar.killNode();
      output = Buffer.concat([output, await following]);
      expect(output.length).toBeGreaterThan(0);
      // The next one waits at the listener until Node is there again.
      expect((await run(sidecar, 'echo alive')).stdout).toBe('alive\n');
    }
    output = Buffer.concat([output, await follow(sidecar, id, output.length)]);
    const lines = output.toString().trimEnd().split('\n');
    expect(lines).toHaveLength(60);
    for (const [at, line] of lines.entries()) expect(line).toBe(`line ${at} [REDACTED_SECRET:api]`);
    const { session_id } = health.parse(await (await sidecar.call('GET', '/health')).json());
    expect(session_id).toBe('kept');
    // Whoever shows no token is not told whose sandbox it is.
    for (const token of [null, 'wrong']) {
      const told: unknown = await (await sidecar.call('GET', '/health', { token })).json();
      expect(told).toMatchObject({ status: 'healthy', session_id: null, generation: null, skills_rev: null });
      expect(JSON.stringify(told)).not.toContain('kept');
    }
    const again = await sidecar.call('POST', '/configure', { body: configuration });
    expect(again.status).toBe(200);
    const lower = await sidecar.call('POST', '/configure', { body: { ...configuration, generation: 6 } });
    expect(lower.status).toBe(409);
    // Four of six were used: the long one, and one after each kill.
    await run(sidecar, 'true');
    await run(sidecar, 'true');
    const spent = await sidecar.call('POST', '/exec', { body: { command: 'true' } });
    expect(spent.status).toBe(403);
    await sidecar.killNode();
    expect((await sidecar.call('POST', '/exec', { body: { command: 'true' } })).status).toBe(403);
  });

  it('of the runner ends everything, and the next start begins with nothing', { timeout: LONG }, async () => {
    const data = makeDataDirectory();
    const first = await startSidecar({ data });
    const port = first.port;
    await run(first, 'echo left >/workspace/file');
    await start(first, { command: 'sleep 1000' });
    const pids = family(first);
    expect(pids.length).toBeGreaterThan(3);
    await first.killRunner();
    await eventually(
      () => living(pids).length === 0,
      within(10_000),
      () => living(pids).join(', '),
    );
    await using second = await startSidecar({ data, port });
    expect((await run(second, 'ls /workspace')).stdout).toBe('');
    expect(listed.parse(await (await second.call('GET', '/execs')).json()).execs).toHaveLength(1);
    await second.stop();
    rmSync(second.places.runtime, { recursive: true, force: true });
    rmSync(join(data, '..'), { recursive: true, force: true });
  });
});

describe(`its end, ${lane}`, () => {
  it('is in order: commands end, long answers end, nothing is left, and the token is gone', {
    timeout: LONG,
  }, async () => {
    const sidecar = await startSidecar();
    const id = await start(sidecar, { command: 'echo begun; setsid sleep 1000 & sleep 1000' });
    const following = follow(sidecar, id, 0);
    await eventually(
      async () => (await run(sidecar, 'true')).exit_code === 0,
      within(5000),
      () => '',
    );
    const pids = family(sidecar);
    const config = join(sidecar.places.runtime, `run-${sidecar.pid}`, 'sidecar.json');
    const begin = performance.now();
    expect(await sidecar.stop()).toEqual({ code: 0, signal: null });
    expect(performance.now() - begin).toBeLessThan(within(10_000));
    expect((await following).toString()).toBe('begun\n');
    expect(living(pids)).toEqual([]);
    expect(readFileSync(config, 'utf8')).toBe('');
    await sidecar[Symbol.asyncDispose]();
  });

  it('comes by Ctrl-C too', { timeout: LONG }, async () => {
    await using sidecar = await startSidecar();
    expect(await sidecar.stop('SIGINT')).toEqual({ code: 0, signal: null });
  });
});

/** A root file system with a shell, `cat`, what they are linked with, and a file of its own. */
function makeRoot(directory: string): string {
  for (const name of ['bin', 'etc', 'usr/bin']) mkdirSync(join(directory, name), { recursive: true });
  for (const program of ['/bin/sh', '/bin/cat']) {
    const linked = execFileSync('ldd', [program], { encoding: 'utf8' }).match(/\/\S+/g) ?? [];
    for (const path of [program, ...linked]) {
      mkdirSync(dirname(join(directory, path)), { recursive: true });
      copyFileSync(path, join(directory, path));
    }
  }
  writeFileSync(join(directory, 'etc', 'marker'), 'of this root\n');
  return directory;
}

describe(`a root file system, ${lane}`, () => {
  it('is the one that --rootfs names', { timeout: LONG }, async () => {
    await using sidecar = await startSidecar({ args: ['--rootfs', makeRoot(join(base, 'root'))] });
    expect(await run(sidecar, 'cat /etc/marker')).toMatchObject({ exit_code: 0, stdout: 'of this root\n' });
    expect((await run(sidecar, 'ls /')).exit_code).toBe(127);
  });

  it.each([
    ['this machine as it is', '/'],
    ['a directory that is not there', '/nonexistent'],
  ])('is refused: %s', async (_what, directory) => {
    const words = ['sidecar', '--data', join(base, 'refused'), '--rootfs', directory];
    const { status, stderr } = await boxkite(words, { SIDECAR_TLS_DISABLED: 'true' });
    expect([status, stderr]).toEqual([2, expect.stringContaining('rootfs: ')]);
  });
});
