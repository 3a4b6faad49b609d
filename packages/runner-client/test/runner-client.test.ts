import { Buffer } from 'node:buffer';
import { createConnection } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RunnerClient, type RunnerExecution } from '../src/index.ts';
import { collect, failureOf } from './support/collect.ts';
import { type FakePeer, FakeRunner, type Frame, obliging } from './support/fake-runner.ts';
import { encodeFrame, outputFrame, rawFrame, sampleEffective, sampleEnded, sampleError } from './support/layouts.ts';

const request = { argv: ['true'] };
const NO_ID = '0'.repeat(32);

/** A script that treats each exec by `run` and everything else as `obliging` does. */
function scripted(run: (peer: FakePeer, frame: Frame, exec: bigint) => void): (peer: FakePeer, frame: Frame) => void {
  const others = obliging();
  let exec = 0n;
  return (peer, frame) => {
    if (frame.name === 'exec') {
      exec += 1n;
      run(peer, frame, exec);
    } else others(peer, frame);
  };
}

/** Waits for what the other side of a socket does. */
async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; !condition(); tries += 1) {
    if (tries > 400) throw new Error('it did not happen');
    await delay(5);
  }
}

describe('calls', () => {
  it('go out with their fields and come back decoded', async () => {
    await using runner = await FakeRunner.start(obliging());
    const client = await runner.client();
    const limits = {
      memoryBytes: 1,
      workspaceBytes: 2,
      inodes: 3,
      pids: 4,
      cpuMillis: 5,
      root: 6,
      fresh: true,
      requireCpu: true,
    };
    const { sandbox, effective } = await client.openSandbox(limits);
    expect(sandbox).toBe(1n);
    expect(effective.memory).toEqual({ via: 'cgroup_v2', bytes: 1_073_741_824 });
    expect(effective.layers).toEqual({
      seccomp: true,
      read_only_root: true,
      landlock: true,
      network: true,
      proc_masks: true,
      devices: true,
      other_processes: true,
    });
    expect(await client.probe()).toEqual({ mode: 'root', layers: [] });
    expect(await client.list({ usage: true })).toEqual({ sandboxes: [], execs: [], workspaces: [] });
    await client.closeSandbox(sandbox);
    const frames = runner.peers[0]?.seen ?? [];
    expect(frames.map(({ name }) => name)).toEqual(['open_sandbox', 'probe', 'list', 'close_sandbox']);
    expect(frames[2]?.fields).toEqual({ flags: '1' });
    expect(frames[3]?.fields).toEqual({ sandbox: '1', keep: '0', workspace_id: NO_ID });
    expect(frames[0]?.fields).toEqual({
      memory_bytes: '1',
      workspace_bytes: '2',
      pids: '4',
      cpu_millis: '5',
      inodes: '3',
      root: '6',
      flags: '5',
      workspace: '0',
      workspace_id: NO_ID,
    });
  });

  it('carry the whole request of an exec', async () => {
    await using runner = await FakeRunner.start(obliging());
    const client = await runner.client();
    const full = {
      argv: ['printf', '%s', 'ü', ''],
      cwd: '/tmp',
      env: { PATH: '/bin', X: 'a=b' },
      stdin: Buffer.from('in'),
      timeout_ms: 5000,
      tty: { columns: 80, rows: 24 },
      limits: { memory_mb: 4, pids: 3, cpu_ms: 4 },
      overflow: 'block' as const,
      fresh: true,
    };
    await collect(await client.exec(7n, full));
    const fields = runner.peers[0]?.seen[0]?.fields ?? {};
    const text = (name: string): string => Buffer.from(fields[name] ?? '', 'hex').toString();
    expect(fields).toMatchObject({
      sandbox: '7',
      timeout_ms: '5000',
      memory_bytes: '4194304',
      cpu_ms: '4',
      pids: '3',
      columns: '80',
      rows: '24',
      stdin: '1',
      terminal: '1',
      overflow: '1',
      flags: '1',
      argument_count: '4',
    });
    expect([text('cwd'), text('inline'), text('argument_2_value'), text('argument_3_value')]).toEqual([
      '/tmp',
      'in',
      'ü',
      '',
    ]);
    const environment = Array.from({ length: Number(fields['environment_count']) }, (_, index) =>
      text(`environment_${index}_value`),
    );
    // The caller's own with the request's on top, and nothing that the client thought of.
    expect(environment.toSorted()).toEqual(['GIVEN=by the caller', 'PATH=/bin', 'X=a=b']);
  });

  it.each([
    ['a NUL in an argument', { argv: ['a', 'b\0c'] }, 'argv'],
    ['a lone surrogate', { argv: ['a', '\ud800'] }, 'argv'],
    ['no program', { argv: [] }, 'argv'],
    ['an empty program', { argv: [''] }, 'argv'],
    ['a NUL in the environment', { argv: ['a'], env: { A: '\0' } }, 'env'],
    ['a name with =', { argv: ['a'], env: { 'A=B': '' } }, 'env'],
    ['a NUL in the directory', { argv: ['a'], cwd: '/\0' }, 'cwd'],
    ['a limit of 0', { argv: ['a'], limits: { pids: 0 } }, 'limits.pids'],
    ['half a millisecond', { argv: ['a'], timeout_ms: 0.5 }, 'timeout_ms'],
    ['a terminal without columns', { argv: ['a'], tty: { columns: 0, rows: 1 } }, 'tty.columns'],
  ])('are refused here for %s', async (_name, bad, field) => {
    await using runner = await FakeRunner.start(obliging());
    const client = await runner.client();
    expect(await failureOf(client.exec(1n, bad))).toMatchObject({ code: 'invalid_request', details: { field } });
    await collect(await client.exec(1n, request));
    expect(runner.peers[0]?.seen.filter(({ name }) => name === 'exec')).toHaveLength(1);
  });

  it('take 100,000 short arguments and refuse 200 MB of them', async () => {
    await using runner = await FakeRunner.start(obliging());
    const client = await runner.client();
    const many = Array.from({ length: 100_000 }, (_, index) => `argument ${index}`);
    await collect(await client.exec(1n, { argv: many }));
    expect(runner.peers[0]?.seen[0]?.fields['argument_count']).toBe('100000');
    const megabyte = 'x'.repeat(1024 * 1024);
    const huge = ['a', ...Array.from({ length: 200 }, () => megabyte)];
    expect(await failureOf(client.exec(1n, { argv: huge }))).toMatchObject({ code: 'argument_list_too_long' });
    expect(await failureOf(client.exec(1n, { argv: ['a', 'ü'.repeat(2 * 1024 * 1024)] }))).toMatchObject({
      code: 'argument_list_too_long',
    });
  });

  it.each([
    [2, 'unsupported', { step: 'cgroup', errno: 2, detail: 'why' }],
    [3, 'not_found', { kind: 'sandbox', step: 'cgroup', errno: 2, detail: 'why' }],
    [4, 'not_found', { kind: 'exec', step: 'cgroup', errno: 2, detail: 'why' }],
    [5, 'isolation_unavailable', { layer: 'cgroup', errno: 2, detail: 'why' }],
    [6, 'capacity', { limit: 'cgroup', errno: 2, detail: 'why' }],
    [7, 'invalid_request', { field: 'cgroup', errno: 2, detail: 'why' }],
    [8, 'start_failed', { step: 'cgroup', errno: 2, detail: 'why' }],
    [9, 'command_not_found', { step: 'cgroup', errno: 2, detail: 'why' }],
    [10, 'not_executable', { step: 'cgroup', errno: 2, detail: 'why' }],
    [11, 'argument_list_too_long', { step: 'cgroup', errno: 2, detail: 'why' }],
    [12, 'closing', { step: 'cgroup', errno: 2, detail: 'why' }],
    [13, 'internal', { step: 'cgroup', errno: 2, detail: 'why' }],
    [14, 'exec_ended', { step: 'cgroup', errno: 2, detail: 'why' }],
    [15, 'bad_directory', { step: 'cgroup', errno: 2, detail: 'why' }],
    [99, 'internal', { step: 'cgroup', errno: 2, detail: 'why' }],
  ])('fail with the code of ERROR %i: %s', async (number, code, details) => {
    const script = scripted((peer, frame) =>
      peer.send('error', frame.request, sampleError(number, 'cgroup', 2, 'why')),
    );
    await using runner = await FakeRunner.start(script);
    expect(await failureOf((await runner.client()).exec(1n, request))).toMatchObject({ code, details });
  });

  it.each([
    [9, 'command_not_found', /: tool$/],
    [10, 'not_executable', /: tool$/],
    [15, 'bad_directory', /: \/work$/],
    [8, 'start_failed', /: execve$/],
  ])('name in ERROR %i what of the request is at fault', async (number, code, message) => {
    const script = scripted((peer, frame) => peer.send('error', frame.request, sampleError(number, 'execve', 2)));
    await using runner = await FakeRunner.start(script);
    const error = await failureOf((await runner.client()).exec(1n, { argv: ['tool', 'x'], cwd: '/work' }));
    expect(error).toMatchObject({ code, details: { step: 'execve', errno: 2 } });
    expect(error.message).toMatch(message);
  });

  it('close a sandbox that is unknown', async () => {
    await using runner = await FakeRunner.start((peer, frame) => peer.send('error', frame.request, sampleError(3)));
    await (await runner.client()).closeSandbox(5n);
  });

  it('carry the workspace: opened, kept, listed, removed', async () => {
    const id = Buffer.from('0190f5e28c3b7a4d9e1f00112233aabb', 'hex');
    await using runner = await FakeRunner.start(obliging());
    const client = await runner.client();
    const open = { ...openRequest, workspace: { kind: 'disk', id, reopen: true } } as const;
    const { sandbox } = await client.openSandbox(open);
    await client.closeSandbox(sandbox, { keep: true });
    await client.removeWorkspace(id);
    const fields = runner.peers[0]?.seen.map((frame) => frame.fields) ?? [];
    expect(fields[0]).toMatchObject({ workspace: '2', workspace_id: id.toString('hex') });
    expect(fields[1]).toEqual({ sandbox: '1', keep: '1', workspace_id: NO_ID });
    expect(fields[2]).toEqual({ sandbox: '0', keep: '0', workspace_id: id.toString('hex') });
  });

  it.each([new Uint8Array(15).fill(1), new Uint8Array(16)])('refuse %o as the id of a workspace', async (id) => {
    await using runner = await FakeRunner.start(obliging());
    const client = await runner.client();
    const refused = { code: 'invalid_request', details: { field: 'workspace' } };
    const open = { ...openRequest, workspace: { kind: 'disk', id, reopen: false } } as const;
    expect(await failureOf(client.openSandbox(open))).toMatchObject(refused);
    expect(await failureOf(client.removeWorkspace(id))).toMatchObject(refused);
  });

  it('remove a workspace that is not there, and not one in use', async () => {
    let code = 16;
    await using runner = await FakeRunner.start((peer, frame) =>
      peer.send('error', frame.request, sampleError(code, 'workspace')),
    );
    const client = await runner.client();
    await client.removeWorkspace(new Uint8Array(16).fill(1));
    code = 18;
    expect(await failureOf(client.removeWorkspace(new Uint8Array(16).fill(1)))).toMatchObject({ code: 'conflict' });
  });

  it.each([
    [true, '1'],
    [false, '0'],
  ])('leave what was there before an open that is aborted too late (reopen %s)', async (reopen, keep) => {
    const controller = new AbortController();
    const obliged = obliging();
    await using runner = await FakeRunner.start((peer, frame) => {
      if (frame.name === 'open_sandbox') controller.abort();
      obliged(peer, frame);
    });
    const client = await runner.client();
    const open = { ...openRequest, workspace: { kind: 'disk', id: new Uint8Array(16).fill(1), reopen } } as const;
    expect(await failureOf(client.openSandbox(open, controller.signal))).toMatchObject({ code: 'aborted' });
    expect(runner.peers[0]?.seen.at(-1)).toMatchObject({ name: 'close_sandbox', fields: { keep } });
  });
});

describe('events', () => {
  it('of 200 execs at once reach their own handles, whatever the order', async () => {
    const waiting: { frame: Frame; exec: bigint }[] = [];
    const script = scripted((peer, frame, exec) => {
      waiting.push({ frame, exec });
      if (waiting.length < 200) return;
      const order = [...waiting].reverse();
      for (const each of order) peer.started(each.frame.request, each.exec);
      for (let round = 0; round < 3; round += 1) {
        for (const each of order)
          peer.write(outputFrame(each.exec, 1, round * 8, Buffer.from(String(each.exec).padEnd(8))));
      }
      for (const each of waiting) peer.end(each.exec, 24);
    });
    await using runner = await FakeRunner.start(script);
    const client = await runner.client();
    const handles = await Promise.all(Array.from({ length: 200 }, () => client.exec(1n, request)));
    const all = await Promise.all(handles.map((handle) => collect(handle)));
    for (const [index, { stdout, record }] of all.entries()) {
      expect(stdout.toString()).toBe(`${handles[index]?.exec_id.padEnd(8)}`.repeat(3));
      expect(record).toMatchObject({
        exec_id: handles[index]?.exec_id,
        end: 'exited',
        exit_code: 0,
        signal: null,
        reason: null,
      });
    }
  });

  it('are byte-exact for any sizes and any chunk borders', async () => {
    const data = fc.array(fc.tuple(fc.constantFrom(1 as const, 2 as const), fc.uint8Array({ maxLength: 3000 })), {
      maxLength: 20,
    });
    await fc.assert(
      fc.asyncProperty(data, fc.array(fc.nat(), { maxLength: 10 }), async (parts, cuts) => {
        const expected = { 1: Buffer.alloc(0), 2: Buffer.alloc(0) };
        const script = scripted((peer, frame, exec) => {
          const frames = [encodeFrame('started', frame.request, { exec: String(exec), ...sampleEffective })];
          for (const [stream, bytes] of parts) {
            frames.push(outputFrame(exec, stream, expected[stream].length, bytes));
            expected[stream] = Buffer.concat([expected[stream], bytes]);
          }
          frames.push(encodeFrame('ended', 0, sampleEnded(exec, expected[1].length, expected[2].length)));
          void sendCut(peer, Buffer.concat(frames), cuts);
        });
        await using runner = await FakeRunner.start(script);
        const { stdout, stderr } = await collect(await (await runner.client()).exec(1n, request));
        expect(stdout.equals(expected[1])).toBe(true);
        expect(stderr.equals(expected[2])).toBe(true);
      }),
      { numRuns: 40 },
    );
  });

  it('tell gaps and the reason of the end', async () => {
    const script = scripted((peer, frame, exec) => {
      peer.started(frame.request, exec);
      peer.send('gap', 0, { exec: String(exec), stream: '1', from: '0', to: '10' });
      peer.write(outputFrame(exec, 1, 10, Buffer.from('tail')));
      peer.end(exec, 14, 0, {
        end: '5',
        cause: '1',
        exit_code: '-1',
        signal: '9',
        cpu_us: '18446744073709551615',
        memory_peak: '42',
      });
    });
    await using runner = await FakeRunner.start(script);
    const { stdout, gaps, record } = await collect(await (await runner.client()).exec(1n, request));
    expect(stdout.toString()).toBe('tail');
    expect(gaps).toEqual([{ type: 'gap', stream: 'stdout', from: 0, to: 10 }]);
    expect(record).toMatchObject({
      end: 'killed',
      exit_code: null,
      signal: 'SIGKILL',
      reason: 'cpu_limit',
      usage: { cpu_ms: null, memory_peak_bytes: 42 },
      duration_ms: 1.234,
    });
  });

  it('beyond output_bytes become one gap, and are taken from the command all the same', async () => {
    const script = scripted((peer, frame, exec) => {
      peer.started(frame.request, exec);
      for (let at = 0; at < 1_000_000; at += 100_000) peer.write(outputFrame(exec, 2, at, Buffer.alloc(100_000, 65)));
      until(() => peer.seen.some(({ name, fields }) => name === 'commit' && Number(fields['stderr']) >= 900_000)).then(
        () => peer.end(exec, 0, 1_000_000),
        () => peer.socket.destroy(),
      );
    });
    await using runner = await FakeRunner.start(script);
    const execution = await (await runner.client()).exec(1n, { argv: ['x'], limits: { output_bytes: 150_000 } });
    const { stderr, gaps, record } = await collect(execution);
    expect(stderr.length).toBe(150_000);
    expect(gaps).toEqual([{ type: 'gap', stream: 'stderr', from: 150_000, to: 1_000_000 }]);
    expect(record.stderr_bytes).toBe(1_000_000);
  });

  it('continue where a left loop stopped', async () => {
    const script = scripted((peer, frame, exec) => {
      peer.started(frame.request, exec);
      for (let at = 0; at < 5; at += 1) peer.write(outputFrame(exec, 1, at, Buffer.from(String(at))));
      peer.end(exec, 5);
    });
    await using runner = await FakeRunner.start(script);
    const execution = await (await runner.client()).exec(1n, request);
    for await (const event of execution) {
      expect(event).toMatchObject({ offset: 0 });
      break;
    }
    expect((await collect(execution)).stdout.toString()).toMatch(/^1?2?3?4$|^1234$/);
    expect(await execution[Symbol.asyncIterator]().next()).toEqual({ done: true, value: undefined });
  });
});

describe('commits', () => {
  /** Sends `total` bytes, never more than 1 MiB beyond what is committed. */
  function windowed(total: number, sent: { most: number; at: number }) {
    const others = obliging();
    let committed = 0;
    const pump = (peer: FakePeer): void => {
      while (sent.at < total && sent.at - committed < 1024 * 1024) {
        const bytes = Math.min(64 * 1024, total - sent.at, 1024 * 1024 - (sent.at - committed));
        peer.write(outputFrame(1n, 1, sent.at, Buffer.alloc(bytes, sent.at % 251)));
        sent.at += bytes;
        sent.most = Math.max(sent.most, sent.at - committed);
        if (sent.at === total) peer.end(1n, total);
      }
    };
    return (peer: FakePeer, frame: Frame): void => {
      if (frame.name === 'exec') {
        peer.started(frame.request, 1n);
        pump(peer);
      } else if (frame.name === 'commit') {
        if (frame.fields['end'] === '1') return;
        committed = Number(frame.fields['stdout']);
        pump(peer);
      } else others(peer, frame);
    };
  }

  it('let all of a long output through, and say the end', async () => {
    const sent = { most: 0, at: 0 };
    const total = 20 * 1024 * 1024 + 17;
    await using runner = await FakeRunner.start(windowed(total, sent));
    const execution = await (await runner.client()).exec(1n, request);
    expect((await collect(execution)).stdout.length).toBe(total);
    await until(() => runner.peers[0]?.seen.at(-1)?.fields['end'] === '1');
    expect(runner.peers[0]?.seen.at(-1)?.fields).toEqual({ exec: '1', stdout: String(total), stderr: '0', end: '1' });
    const commits = runner.peers[0]?.seen.filter(({ name }) => name === 'commit') ?? [];
    expect(commits.length).toBeLessThan(total / (128 * 1024));
  });

  it('wait for the consumer: a stalled one stops the command at the spool, and small output is committed when idle', async () => {
    const sent = { most: 0, at: 0 };
    const total = 8 * 1024 * 1024;
    await using runner = await FakeRunner.start(windowed(total, sent));
    const execution = await (await runner.client()).exec(1n, request);
    await delay(100);
    expect(sent.at).toBe(1024 * 1024);
    const iterator = execution[Symbol.asyncIterator]();
    await iterator.next();
    await delay(100);
    // What is in hand is not done with: nothing is committed.
    expect(sent.at).toBe(1024 * 1024);
    await iterator.next();
    await until(() => sent.at > 1024 * 1024);
    await collect(execution);
    expect(sent.most).toBeLessThanOrEqual(1024 * 1024);
  });

  it('of the caller are the only ones where he asks for that, also after a kill', async () => {
    const sent = { most: 0, at: 0 };
    const total = 1024 * 1024;
    await using runner = await FakeRunner.start(windowed(total, sent));
    const client = await runner.client();
    const execution = await client.exec(1n, { ...request, limits: { output_bytes: 10 } }, undefined, 'caller');
    expect((await collect(execution)).stdout.length).toBe(total);
    await execution.kill();
    await delay(60);
    const commits = () => runner.peers[0]?.seen.flatMap(({ name, fields }) => (name === 'commit' ? [fields] : []));
    expect(commits()).toEqual([]);
    execution.commit(17, 0);
    execution.release();
    await until(() => commits()?.length === 2);
    expect(commits()).toEqual([
      { exec: '1', stdout: '17', stderr: '0', end: '0' },
      { exec: '1', stdout: String(total), stderr: '0', end: '1' },
    ]);
  });

  it('go with the next exec in one write', async () => {
    const sizes: number[] = [];
    await using runner = await FakeRunner.start(obliging());
    const client = await runner.client();
    await collect(await client.exec(1n, request));
    runner.peers[0]?.socket.prependListener('data', (chunk: Buffer) => sizes.push(chunk.length));
    for (let round = 0; round < 20; round += 1) await collect(await client.exec(1n, request));
    await until(() => runner.peers[0]?.seen.at(-1)?.name === 'commit');
    expect(sizes.length).toBeLessThanOrEqual(22);
  });
});

describe('kill and signals', () => {
  /** Floods until it is killed; the end comes only when all output has been committed, as a full spool would have it. */
  function stubborn(peerFrames: Frame[]) {
    const others = obliging();
    let produced = 0;
    let killed = false;
    return (peer: FakePeer, frame: Frame): void => {
      peerFrames.push(frame);
      if (frame.name === 'exec') {
        peer.started(frame.request, 1n);
        for (; produced < 1024 * 1024; produced += 64 * 1024)
          peer.write(outputFrame(1n, 1, produced, Buffer.alloc(64 * 1024)));
      } else if (frame.name === 'signal' && frame.fields['target'] === '1') {
        killed = true;
        peer.send('done', frame.request);
        peer.write(outputFrame(1n, 1, produced, Buffer.alloc(1000)));
        produced += 1000;
      } else if (
        frame.name === 'commit' &&
        killed &&
        Number(frame.fields['stdout']) === produced &&
        frame.fields['end'] === '0'
      ) {
        peer.end(1n, produced, 0, { end: '5', cause: '2', exit_code: '-1', signal: '9' });
      } else if (frame.name !== 'commit') others(peer, frame);
    };
  }

  it('kill resolves at the end even if nobody reads, and the output is still there', async () => {
    const frames: Frame[] = [];
    await using runner = await FakeRunner.start(stubborn(frames));
    const execution = await (await runner.client()).exec(1n, request);
    await Promise.all([execution.kill(), execution.kill()]);
    expect(frames.filter(({ name }) => name === 'signal')).toHaveLength(1);
    const { stdout, record } = await collect(execution);
    expect(stdout.length).toBe(1024 * 1024 + 1000);
    expect(record).toMatchObject({ end: 'killed', reason: 'requested', signal: 'SIGKILL' });
    await execution.kill();
  });

  it('signals go by name and number, and not after the end', async () => {
    let open: FakePeer | null = null;
    const script = scripted((peer, frame, exec) => {
      open = peer;
      peer.started(frame.request, exec);
    });
    await using runner = await FakeRunner.start(script);
    const execution = await (await runner.client()).exec(1n, request);
    await execution.signal('SIGTERM');
    await execution.signal('INT');
    await execution.signal(10);
    await execution.resize(100, 30);
    for (const bad of ['SIGNOPE', '', 'sigterm', 0, 65, 1.5, Number.NaN]) {
      expect(await failureOf(execution.signal(bad))).toMatchObject({ code: 'invalid_request' });
    }
    expect(await failureOf(execution.resize(0, 5))).toMatchObject({
      code: 'invalid_request',
      details: { field: 'columns' },
    });
    const seen = runner.peers[0]?.seen.slice(1).map(({ fields }) => fields);
    expect(seen).toEqual([
      { exec: '1', signal: '15', target: '0' },
      { exec: '1', signal: '2', target: '0' },
      { exec: '1', signal: '10', target: '0' },
      { exec: '1', columns: '100', rows: '30' },
    ]);
    (open as FakePeer | null)?.end(1n);
    await collect(execution);
    expect(await failureOf(execution.signal('SIGTERM'))).toMatchObject({ code: 'exec_ended' });
    expect(await failureOf(execution.write(Buffer.from('x')))).toMatchObject({ code: 'exec_ended' });
    await execution.closeStdin();
  });
});

describe('abort', () => {
  it('before the call starts nothing', async () => {
    await using runner = await FakeRunner.start(obliging());
    const client = await runner.client();
    expect(await failureOf(client.exec(1n, request, AbortSignal.abort()))).toMatchObject({ code: 'aborted' });
    expect(await failureOf(client.openSandbox(openRequest, AbortSignal.abort()))).toMatchObject({ code: 'aborted' });
    await client.list();
    expect(runner.peers[0]?.seen.map(({ name }) => name)).toEqual(['list']);
  });

  it('before the answer rejects only when the exec is dead and its record is gone', async () => {
    const abort = new AbortController();
    const log: string[] = [];
    const others = obliging();
    await using runner = await FakeRunner.start((peer, frame) => {
      if (frame.name === 'exec') {
        abort.abort();
        setTimeout(() => {
          peer.started(frame.request, 1n);
          peer.write(outputFrame(1n, 1, 0, Buffer.alloc(10)));
        }, 10);
      } else if (frame.name === 'signal') {
        peer.send('done', frame.request);
        setTimeout(() => {
          log.push('dead');
          peer.end(1n, 10, 0, { end: '5', cause: '2' });
        }, 20);
      } else if (frame.name !== 'commit') others(peer, frame);
    });
    const failure = await failureOf(
      (await runner.client()).exec(1n, request, abort.signal).finally(() => log.push('rejected')),
    );
    expect(failure.code).toBe('aborted');
    expect(log).toEqual(['dead', 'rejected']);
    await until(() => runner.peers[0]?.seen.at(-1)?.fields['end'] === '1');
  });

  it('before the answer of a refused exec rejects aborted', async () => {
    const abort = new AbortController();
    await using runner = await FakeRunner.start((peer, frame) => {
      abort.abort();
      peer.send('error', frame.request, sampleError(9));
    });
    expect(await failureOf((await runner.client()).exec(1n, request, abort.signal))).toMatchObject({ code: 'aborted' });
  });

  it('after the start kills, once, and after the end does nothing', async () => {
    const script = scripted((peer, frame, exec) => peer.started(frame.request, exec));
    await using runner = await FakeRunner.start((peer, frame) => {
      script(peer, frame);
      if (frame.name === 'signal') peer.end(1n, 0, 0, { end: '5', cause: '2' });
    });
    const abort = new AbortController();
    const execution = await (await runner.client()).exec(1n, request, abort.signal);
    abort.abort();
    expect((await collect(execution)).record.end).toBe('killed');
    const done = new AbortController();
    await using second = await FakeRunner.start(obliging());
    await collect(await (await second.client()).exec(1n, request, done.signal));
    done.abort();
    await delay(20);
    expect(second.peers[0]?.seen.some(({ name }) => name === 'signal')).toBe(false);
  });

  it('of an open closes what was opened', async () => {
    const abort = new AbortController();
    await using runner = await FakeRunner.start((peer, frame) => {
      if (frame.name === 'open_sandbox') abort.abort();
      obliging()(peer, frame);
    });
    expect(await failureOf((await runner.client()).openSandbox(openRequest, abort.signal))).toMatchObject({
      code: 'aborted',
    });
    expect(runner.peers[0]?.seen.map(({ name }) => name)).toEqual(['open_sandbox', 'close_sandbox']);
  });
});

describe('standard input', () => {
  it('has a connection of its own, in order, with an end', async () => {
    let main: FakePeer | null = null;
    await using runner = await FakeRunner.start(
      scripted((peer, frame, exec) => {
        main = peer;
        peer.started(frame.request, exec);
      }),
    );
    const execution = await (await runner.client()).exec(1n, { argv: ['cat'], stdin: 'stream' });
    expect(runner.peers).toHaveLength(1);
    const writes = Array.from({ length: 50 }, (_, index) => execution.write(Buffer.from(`${index} `)));
    await Promise.all(writes);
    await execution.closeStdin();
    await execution.closeStdin();
    const input = runner.peers[1];
    await input?.ended;
    expect(input?.seen.map(({ fields }) => fields)).toEqual([{ exec: '1', what: '1' }]);
    expect(Buffer.concat(input?.raw ?? []).toString()).toBe(
      Array.from({ length: 50 }, (_, index) => `${index} `).join(''),
    );
    expect(await failureOf(execution.write(Buffer.from('late')))).toMatchObject({ code: 'stdin_closed' });
    (main as FakePeer | null)?.end(1n);
    await collect(execution);
  });

  it('is closed once the runner has said that it has seen the end, or the command is gone', async () => {
    await using runner = await FakeRunner.start(scripted((peer, frame, exec) => peer.started(frame.request, exec)));
    const client = await runner.client();
    for (const answer of ['byte', 'close'] as const) {
      const execution = await client.exec(1n, { argv: ['cat'], stdin: 'stream' });
      await execution.write(Buffer.from('x'));
      const input = runner.peers.at(-1) as FakePeer;
      input.raw = null;
      let closed = false;
      const closing = execution.closeStdin().then(() => {
        closed = true;
      });
      await input.ended;
      await delay(20);
      expect(closed).toBe(false);
      if (answer === 'byte') input.socket.write(Buffer.of(0));
      else input.socket.destroy();
      await closing;
    }
  });

  it('waits where the command does not read, and fails when it closes its input', async () => {
    await using runner = await FakeRunner.start(scripted((peer, frame, exec) => peer.started(frame.request, exec)));
    const execution = await (await runner.client()).exec(1n, { argv: ['sleep'], stdin: 'stream' });
    await execution.write(Buffer.from('x'));
    runner.peers[1]?.socket.pause();
    let taken = 0;
    const writes = Array.from({ length: 40 }, () =>
      execution.write(Buffer.alloc(256 * 1024)).then(() => {
        taken += 1;
      }),
    );
    const outcomes = Promise.all(
      writes.map((write) =>
        write.then(
          () => 'taken',
          () => failureOf(write).then(({ code }) => code),
        ),
      ),
    );
    await delay(50);
    expect(taken).toBeLessThan(10);
    runner.peers[1]?.socket.destroy();
    expect(new Set((await outcomes).slice(taken))).toEqual(new Set(['stdin_closed']));
    expect(await failureOf(execution.write(Buffer.from('y')))).toMatchObject({ code: 'stdin_closed' });
    await execution.closeStdin();
  });

  it('ends with the exec: writes under way reject exec_ended', async () => {
    let main: FakePeer | null = null;
    await using runner = await FakeRunner.start(
      scripted((peer, frame, exec) => {
        main = peer;
        peer.started(frame.request, exec);
      }),
    );
    const execution = await (await runner.client()).exec(1n, { argv: ['sleep'], stdin: 'stream' });
    await execution.write(Buffer.from('x'));
    runner.peers[1]?.socket.pause();
    const writes = Array.from({ length: 20 }, () => execution.write(Buffer.alloc(256 * 1024)));
    const last = failureOf(writes.at(-1) ?? Promise.resolve());
    for (const write of writes) write.catch(() => undefined);
    (main as FakePeer | null)?.end(1n);
    await collect(execution);
    expect(await last).toMatchObject({ code: 'exec_ended' });
  });

  it('that is too long for the request is written behind it', async () => {
    await using runner = await FakeRunner.start(
      scripted((peer, frame, exec) => {
        peer.started(frame.request, exec);
        until(() => runner.peers[1]?.raw?.reduce((sum, part) => sum + part.length, 0) === 300_000).then(
          () => peer.end(exec),
          () => peer.socket.destroy(),
        );
      }),
    );
    const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 253));
    const execution = await (await runner.client()).exec(1n, { argv: ['cat'], stdin: bytes });
    expect((await collect(execution)).record.end).toBe('exited');
    expect(Buffer.concat(runner.peers[1]?.raw ?? []).equals(bytes)).toBe(true);
    expect(runner.peers[0]?.seen[0]?.fields['stdin']).toBe('2');
  });

  it('that can not be delivered kills the exec and is its failure', async () => {
    const script = scripted((peer, frame, exec) => peer.started(frame.request, exec));
    await using runner = await FakeRunner.start((peer, frame) => {
      if (frame.name === 'attach') peer.send('error', frame.request, sampleError(13, 'pass descriptor', 24));
      else script(peer, frame);
      if (frame.name === 'signal') peer.end(1n, 0, 0, { end: '5', cause: '2' });
    });
    const execution = await (await runner.client()).exec(1n, { argv: ['cat'], stdin: Buffer.alloc(100_000) });
    expect(await failureOf(collect(execution))).toMatchObject({
      code: 'internal',
      details: { step: 'pass descriptor', errno: 24 },
    });
  });

  it('is refused where the exec was started without', async () => {
    await using runner = await FakeRunner.start(scripted((peer, frame, exec) => peer.started(frame.request, exec)));
    const execution = await (await runner.client()).exec(1n, request);
    expect(await failureOf(execution.write(Buffer.from('x')))).toMatchObject({ code: 'stdin_closed' });
    expect(runner.peers).toHaveLength(1);
  });
});

describe('attach', () => {
  it('continues from what is not committed', async () => {
    await using runner = await FakeRunner.start((peer, frame) => {
      if (frame.name !== 'attach') return;
      peer.send('attached', frame.request, { exec: '77', stdout_from: '100', stderr_from: '5', ...sampleEffective });
      peer.write(outputFrame(77n, 1, 100, Buffer.from('rest')));
      peer.end(77n, 104, 5);
    });
    const client = await runner.client();
    const execution = await client.attach('77');
    expect(execution.exec_id).toBe('77');
    expect((await collect(execution)).stdout.toString()).toBe('rest');
  });

  it('refuses what is no id, and what is consumed already', async () => {
    await using runner = await FakeRunner.start(scripted((peer, frame, exec) => peer.started(frame.request, exec)));
    const client = await runner.client();
    const execution = await client.exec(1n, request);
    for (const bad of ['', 'x', '-1', '1.5', '18446744073709551616'])
      expect(await failureOf(client.attach(bad))).toMatchObject({ code: 'not_found' });
    expect(await failureOf(client.attach(execution.exec_id))).toMatchObject({ code: 'invalid_request' });
  });
});

const openRequest = { memoryBytes: 1, workspaceBytes: 1, inodes: 1, pids: 1, cpuMillis: 0, root: 0 };

describe('a lost runner', () => {
  it('fails every call and every handle once, with runner_lost', async () => {
    await using runner = await FakeRunner.start((peer, frame) => {
      if (frame.name === 'exec') {
        peer.started(frame.request, BigInt(frame.request));
        peer.write(outputFrame(BigInt(frame.request), 1, 0, Buffer.from('kept')));
      }
    });
    const client = await runner.client();
    const waiting = await client.exec(1n, request);
    const unread = await client.exec(1n, request);
    const iterator = waiting[Symbol.asyncIterator]();
    await iterator.next();
    const next = failureOf(iterator.next());
    const calls = [
      client.list(),
      client.probe(),
      client.openSandbox(openRequest),
      waiting.signal('SIGTERM'),
      unread.kill(),
    ].map(failureOf);
    await until(() => (runner.peers[0]?.seen.length ?? 0) >= 7);
    runner.peers[0]?.socket.destroy();
    for (const { code } of await Promise.all([next, ...calls])) expect(code).toBe('runner_lost');
    await client.lost;
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    const late = unread[Symbol.asyncIterator]();
    expect(await late.next()).toMatchObject({ value: { type: 'output' } });
    expect(await failureOf(late.next())).toMatchObject({ code: 'runner_lost' });
    expect(await late.next()).toEqual({ done: true, value: undefined });
    expect(await failureOf(client.exec(1n, request))).toMatchObject({ code: 'runner_lost' });
    expect(await failureOf(unread.kill())).toMatchObject({ code: 'runner_lost' });
  });

  it('is noticed wherever the stream of an exec breaks off', async () => {
    const whole = Buffer.concat([
      encodeFrame('started', 1, { exec: '1', ...sampleEffective }),
      outputFrame(1n, 1, 0, Buffer.from('hello')),
      encodeFrame('ended', 0, sampleEnded(1n, 5)),
    ]);
    for (let cut = 0; cut < whole.length; cut += 7) {
      await using runner = await FakeRunner.start((peer) => peer.socket.end(whole.subarray(0, cut)));
      const client = await runner.client();
      expect(await failureOf(client.exec(1n, request).then(collect))).toMatchObject({ code: 'runner_lost' });
    }
  });

  it.each([
    ['an answer to no request', rawFrame(0x80, 77, Buffer.alloc(0))],
    ['an answer of another type', rawFrame(0x80, 1, Buffer.alloc(0))],
    ['a short STARTED', rawFrame(0x83, 1, Buffer.alloc(20))],
    ['an unknown type', rawFrame(0x70, 1, Buffer.alloc(0))],
    ['an event of an unknown exec', outputFrame(9n, 1, 0, Buffer.from('x'))],
    ['an end with a request', encodeFrame('ended', 1, sampleEnded(1n))],
    ['ERROR to the connection', encodeFrame('error', 0, sampleError(1))],
    ['a listing that claims 4 billion entries', rawFrame(0x89, 1, Buffer.alloc(4, 255))],
    [
      'an Effective with an unknown value',
      encodeFrame('started', 1, { exec: '1', ...sampleEffective, memory_via: '9' }),
    ],
  ])('and one that sends %s are the same', async (_name, frame) => {
    await using runner = await FakeRunner.start((peer) => peer.write(frame));
    const client = await runner.client();
    expect(await failureOf(client.exec(1n, request))).toMatchObject({ code: 'runner_lost' });
    await client.lost;
  });

  it.each([
    ['output that skips bytes', outputFrame(1n, 1, 5, Buffer.from('x'))],
    [
      'output that repeats bytes',
      Buffer.concat([outputFrame(1n, 1, 0, Buffer.from('xy')), outputFrame(1n, 1, 1, Buffer.from('y'))]),
    ],
    ['a gap that skips bytes', encodeFrame('gap', 0, { exec: '1', stream: '2', from: '1', to: '2' })],
  ])('and %s', async (_name, frame) => {
    await using runner = await FakeRunner.start(
      scripted((peer, { request: number }, exec) => {
        peer.started(number, exec);
        peer.write(frame);
      }),
    );
    expect(await failureOf((await runner.client()).exec(1n, request).then(collect))).toMatchObject({
      code: 'runner_lost',
    });
  });

  it('is what close makes of it, and close may be repeated', async () => {
    await using runner = await FakeRunner.start(scripted((peer, frame, exec) => peer.started(frame.request, exec)));
    const client = await runner.client();
    const execution: RunnerExecution = await client.exec(1n, request);
    const failure = failureOf(collect(execution));
    await Promise.all([client.close(), client.close()]);
    expect(await failure).toMatchObject({ code: 'runner_lost' });
    await runner.peers[0]?.ended;
  });
});

describe('files', () => {
  it('come on a socket that is the file agent’s from its next byte on', async () => {
    await using runner = await FakeRunner.start((peer, frame) => {
      peer.raw = [];
      peer.write(rawFrame(0x80, frame.request, Buffer.alloc(0)), Buffer.from('greeting'));
    });
    const client = await runner.client();
    const socket = await client.connectFiles(3n, 'provision');
    expect(runner.peers[1]?.seen[0]?.fields).toEqual({ sandbox: '3', instance: '1' });
    const first = new Promise((resolve) => {
      socket.once('data', resolve);
    });
    expect(String(await first)).toBe('greeting');
    socket.destroy();
  });

  it('fail at the end of a half-open connection', async () => {
    await using runner = await FakeRunner.start((peer) => peer.socket.end());
    const socket = createConnection({ path: runner.path, allowHalfOpen: true });
    const client = new RunnerClient(await runner.connect(), {
      connect: () => Promise.resolve(socket),
      environment: {},
    });
    expect(await failureOf(client.connectFiles(1n, 'commands'))).toMatchObject({ code: 'runner_lost' });
    await client.close();
  });

  it('fail with the runner’s error, a broken answer, or a closed connection', async () => {
    let answer = encodeFrame('error', 1, sampleError(12));
    await using runner = await FakeRunner.start((peer) => peer.socket.end(answer));
    const client = await runner.client();
    expect(await failureOf(client.connectFiles(1n, 'commands'))).toMatchObject({ code: 'closing' });
    for (const bad of [Buffer.alloc(12), rawFrame(0x81, 1, Buffer.alloc(0)), answer.subarray(0, 15), Buffer.alloc(0)]) {
      answer = bad;
      expect(await failureOf(client.connectFiles(1n, 'commands'))).toMatchObject({ code: 'runner_lost' });
    }
  });
});

async function sendCut(peer: FakePeer, bytes: Buffer, cuts: readonly number[]): Promise<void> {
  const borders = [...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  let from = 0;
  for (const to of borders) {
    peer.socket.write(bytes.subarray(from, to));
    from = to;
    // A turn of the event loop, so that the parts leave as chunks of their own.
    await new Promise(setImmediate);
  }
}
