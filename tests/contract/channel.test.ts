/** Commands with a channel: one descriptor more, which outlives whoever speaks by it. */
import { readdirSync } from 'node:fs';
import type { RunnerExecution } from '@boxkite/runner-client';
import { eventually, lane, startRunner, type TestRunner, within } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let runner: TestRunner;
beforeAll(async () => {
  runner = await startRunner();
});
afterAll(async () => {
  await runner[Symbol.asyncDispose]();
});

const ECHO = `
import os
os.write(1, b'out ')
os.write(2, b'err ')
os.system('echo child; echo child >&2')
while True:
  data = os.read(3, 65536)
  if not data: break
  if data == b'quit': os._exit(5)
  if data == b'close': os.close(3); os.write(1, b'closed'); import time; time.sleep(100)
  if data == b'long':
    for _ in range(400): os.write(3, b'l' * 10240)
    continue
  os.write(3, b'[' + data + b']')
`;

class Taken {
  stdout = '';
  stderr = '';
  end: string | null = null;
  readonly execution: RunnerExecution;

  constructor(execution: RunnerExecution) {
    this.execution = execution;
    void this.#take().catch(() => undefined);
  }

  async #take(): Promise<void> {
    for await (const event of this.execution) {
      if (event.type === 'output') this[event.stream] += Buffer.from(event.data).toString();
      else if (event.type === 'ended') this.end = `${event.record.end} ${event.record.exit_code}`;
    }
  }

  async has(stream: 'stdout' | 'stderr', text: string): Promise<void> {
    await eventually(
      () => this[stream].endsWith(text),
      within(10_000),
      () => `${stream}: ${this[stream].slice(-200)}`,
    );
  }

  async said(text: string, answer = `[${text}]`): Promise<void> {
    await this.execution.write(Buffer.from(text));
    await this.has('stdout', answer);
  }
}

async function start(): Promise<{ readonly sandbox: bigint; readonly taken: Taken }> {
  const { number } = await runner.create();
  const request = { argv: ['python3', '-I', '-S', '-c', ECHO], stdin: 'channel' } as const;
  return { sandbox: number, taken: new Taken(await runner.client.exec(number, request)) };
}

describe('a channel', () => {
  it('goes both ways, beside an output in one order, and is declared', async () => {
    const { sandbox, taken } = await start();
    expect(taken.execution.effective.descriptors).toEqual([0, 1, 2, 3]);
    await taken.said('one');
    await taken.said('two');
    await taken.has('stderr', 'out err child\nchild\n');
    await taken.execution.write(Buffer.from('long'));
    await eventually(
      () => taken.stdout.length === '[one][two]'.length + 4_096_000,
      within(20_000),
      () => 'it is shorter',
    );
    await taken.execution.write(Buffer.from('quit'));
    await eventually(
      () => taken.end === 'exited 5',
      within(10_000),
      () => String(taken.end),
    );
    const plain = await runner.client.exec(sandbox, { argv: ['true'] });
    expect(plain.effective.descriptors).toEqual([0, 1, 2]);
    await runner.client.closeSandbox(sandbox);
  });

  it('stays open when its writer closes or dies, and is taken up by the next one', async () => {
    const { number: sandbox } = await runner.create();
    let client = await runner.anotherClient();
    const request = { argv: ['python3', '-I', '-S', '-c', ECHO], stdin: 'channel' } as const;
    let taken = new Taken(await client.exec(sandbox, request));
    const id = taken.execution.exec_id;
    await taken.said('first');
    for (const [round, text] of ['second', 'third', 'fourth'].entries()) {
      if (round === 1) await taken.execution.closeStdin();
      await client.close();
      client = await runner.anotherClient();
      taken = new Taken(await client.attach(id));
      expect(taken.execution.effective.descriptors).toEqual([0, 1, 2, 3]);
      await taken.said(text);
    }
    await client.close();
    await runner.client.closeSandbox(sandbox);
  });

  it('is read behind the output that was there before it', async () => {
    const { number } = await runner.create();
    const code = [
      'import os',
      'total = 0',
      'for turn in range(300):',
      '  size = 3_000_000 if turn % 100 == 50 else turn * 37 % 9000',
      '  total += size',
      '  left = bytes(size)',
      '  while left: left = left[os.write(1 + turn % 2, left):]',
      '  os.write(3, b"%d\\n" % total)',
    ].join('\n');
    const execution = await runner.client.exec(number, { argv: ['python3', '-I', '-c', code], stdin: 'channel' });
    let [written, text, told] = [0, '', 0];
    for await (const event of execution) {
      if (event.type !== 'output') continue;
      if (event.stream === 'stderr') {
        written = event.offset + event.data.length;
        // A slow reader, for which the command waits.
        if (written % 7 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
        continue;
      }
      text += Buffer.from(event.data).toString();
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      for (const line of lines) {
        told += 1;
        expect(written).toBeGreaterThanOrEqual(Number(line));
      }
    }
    expect(told).toBe(300);
    await runner.client.closeSandbox(number);
  });

  it('is read behind the output that was there before it, also when the command has ended meanwhile', async () => {
    const { number } = await runner.create();
    const [ahead, output] = [1_100_000, 1_900_000];
    const code = [
      'import os',
      `for fd, left in (3, bytes(${ahead})), (1, bytes(${output})), (3, b"last"):`,
      '  while left: left = left[os.write(fd, left):]',
    ].join('\n');
    const once = async (): Promise<void> => {
      const execution = await runner.client.exec(number, { argv: ['python3', '-I', '-c', code], stdin: 'channel' });
      // Both are full in the runner, which reads no more of them, and the rest waits in the pipe and the socket.
      await new Promise((resolve) => setTimeout(resolve, 500));
      let [written, told] = [0, 0];
      for await (const event of execution) {
        if (event.type !== 'output') continue;
        const end = event.offset + event.data.length;
        if (event.stream === 'stderr') written = end;
        else told = end;
        if (told > ahead) expect(written).toBe(output);
      }
      expect([told, written]).toEqual([ahead + 4, output]);
    };
    for (let round = 0; round < 8; round += 1) await once();
    await runner.client.closeSandbox(number);
  });

  it('takes no descriptor that the command sends along', async () => {
    const { number } = await runner.create();
    const code = [
      'import array, os, socket, time',
      'channel = socket.socket(fileno=3)',
      'some = [os.open("/dev/null", os.O_RDONLY) for _ in range(50)]',
      'sent = 0',
      'while sent < 100:',
      '  try: sent += channel.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", some))])',
      // The kernel bounds what is on its way.
      '  except OSError: time.sleep(0.001)',
      'channel.sendall(b"done"); time.sleep(100)',
    ].join('\n');
    // Only root may look at the descriptors of a process that is not dumpable.
    const held = () => (lane === 'root' ? readdirSync(`/proc/${runner.pid}/fd`).length : 0);
    const request = { argv: ['python3', '-I', '-c', code], stdin: 'channel' } as const;
    const before = held();
    const taken = new Taken(await runner.client.exec(number, request));
    await taken.has('stdout', 'done');
    expect(taken.stdout).toBe(`${'x'.repeat(100)}done`);
    // Its own pipe and channel, and an envelope that was made ahead, are all that it may have more.
    expect(held() - before).toBeLessThan(20);
    await taken.execution.kill();
    await runner.client.closeSandbox(number);
  });

  it('that the command closes is closed to its writer', async () => {
    const { sandbox, taken } = await start();
    await taken.said('close', '').catch(() => undefined);
    await taken.has('stderr', 'closed');
    await expect
      .poll(
        () =>
          taken.execution.write(Buffer.from('more')).then(
            () => null,
            (error: { code: string }) => error.code,
          ),
        {
          timeout: within(10_000),
        },
      )
      .toBe('stdin_closed');
    await taken.execution.kill();
    await runner.client.closeSandbox(sandbox);
  });

  it('goes with no terminal', async () => {
    const { number } = await runner.create();
    const request = { argv: ['true'], stdin: 'channel', tty: { columns: 80, rows: 24 } } as const;
    await expect(runner.client.exec(number, request)).rejects.toMatchObject({ code: 'invalid_request' });
    await runner.client.closeSandbox(number);
  });
});
