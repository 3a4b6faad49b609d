/** Commands that close their own outputs and run on: the runner has nothing to do with them. */
import { readFileSync } from 'node:fs';
import type { RunnerExecRequest } from '@boxkite/runner-client';
import { lane, sleep, startRunner, type TestRunner, within } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let runner: TestRunner;
beforeAll(async () => {
  runner = await startRunner();
});
afterAll(async () => {
  await runner?.[Symbol.asyncDispose]();
});

/** Processor time of the runner's own process, in ticks of 10 ms. */
function ticks(): number {
  const fields = readFileSync(`/proc/${runner.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

type Way = Omit<RunnerExecRequest, 'argv'> & { readonly code: string };

const WAYS: Readonly<Record<string, Way>> = {
  'a channel': { stdin: 'channel', code: 'os.close(3)' },
  'its side of a channel': { stdin: 'channel', code: 'socket.socket(fileno=3).shutdown(socket.SHUT_WR)' },
  'both sides of a channel': { stdin: 'channel', code: 'socket.socket(fileno=3).shutdown(socket.SHUT_RDWR)' },
  'a channel and its outputs': { stdin: 'channel', code: 'os.closerange(0, 4)' },
  'a terminal': { tty: { columns: 80, rows: 24 }, code: 'os.closerange(0, 3)' },
  'its outputs': { code: 'os.closerange(1, 3)' },
  'its outputs and an input': { stdin: 'stream', code: 'os.closerange(0, 3)' },
};

describe(`a command that closes, ${lane}`, () => {
  it.each(Object.entries(WAYS))('%s, and runs on costs nothing', async (_, { code, ...way }) => {
    const { number } = await runner.create();
    const script = `import os, signal, socket, sys\nsys.stdout.write('x'); sys.stdout.flush()\n${code}\nsignal.pause()`;
    const execution = await runner.client.exec(number, { ...way, argv: ['python3', '-I', '-S', '-c', script] });
    const taken = (async () => {
      let text = '';
      for await (const event of execution) if (event.type === 'output') text += Buffer.from(event.data).toString();
      return text;
    })();
    await sleep(within(700));
    const before = ticks();
    await sleep(1000);
    expect(ticks() - before).toBeLessThan(20);
    await execution.kill();
    expect(await taken).toBe('x');
    await runner.client.closeSandbox(number);
  });
});
