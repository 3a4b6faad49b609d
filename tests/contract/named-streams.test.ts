/** The streams of a command by their names: whoever made them, they are its user's to open. */
import { lane, run, startRunner, type TestRunner } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let runner: TestRunner;
beforeAll(async () => {
  runner = await startRunner();
});
afterAll(async () => {
  await runner?.[Symbol.asyncDispose]();
});

describe(`/dev/stdin, /dev/stdout and /dev/stderr, ${lane}`, () => {
  it.each([
    ['nothing', undefined, ''],
    ['bytes', Buffer.from('given\n'), 'given\n'],
  ])('can be opened by name, where the input is %s', async (_, stdin, expected) => {
    await using sandbox = await runner.create();
    const script = 'cat /dev/stdin; cat /proc/self/fd/0; echo out > /dev/stdout; echo err > /dev/stderr; echo no >&2';
    const { stdout, stderr, record } = await run(sandbox, ['sh', '-c', script], stdin === undefined ? {} : { stdin });
    expect([stdout, stderr, record.exit_code]).toEqual([`${expected}out\n`, 'err\nno\n', 0]);
  });

  it('can be opened by name under a list of programs, and where the input is a stream', async () => {
    await using sandbox = await runner.create({ programs: { programs: ['tee', 'head'] } });
    const argv = ['sh', '-c', 'head -n 1 /dev/stdin | tee /dev/stderr'];
    const execution = await runner.client.exec(sandbox.number, { argv, stdin: 'stream' });
    await execution.write(Buffer.from('line\n'));
    const text = { stdout: '', stderr: '' };
    for await (const event of execution)
      if (event.type === 'output') text[event.stream] += Buffer.from(event.data).toString();
    expect(text).toEqual({ stdout: 'line\n', stderr: 'line\n' });
  });
});
