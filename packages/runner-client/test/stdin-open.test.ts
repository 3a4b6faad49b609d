/** Standard input whose connection can't be opened now, and can later. */
import { Buffer } from 'node:buffer';
import { describe, expect, it } from 'vitest';
import { RunnerClient } from '../src/index.ts';
import { failureOf } from './support/collect.ts';
import { FakeRunner, obliging } from './support/fake-runner.ts';

describe('standard input that could not be opened', () => {
  it('is opened by the next write, and its end is told by the next close', async () => {
    const others = obliging();
    let exec = 0n;
    await using runner = await FakeRunner.start((peer, frame) => {
      if (frame.name === 'exec') {
        exec += 1n;
        peer.started(frame.request, exec);
      } else others(peer, frame);
    });
    let failures = 0;
    const connect = async () => {
      if (failures === 0) return runner.connect();
      failures -= 1;
      throw Object.assign(new Error('connect EMFILE'), { code: 'EMFILE' });
    };
    const client = new RunnerClient(await runner.connect(), { connect, environment: {} });
    const written = await client.exec(1n, { argv: ['cat'], stdin: 'stream' });
    failures = 1;
    // Those who waited for the same connection are all told.
    const refused = await Promise.all(
      [written.write(Buffer.from('a')), written.write(Buffer.from('b'))].map(failureOf),
    );
    expect(refused.map(({ code }) => code)).toEqual(['runner_lost', 'runner_lost']);
    await written.write(Buffer.from('c'));
    await written.closeStdin();
    expect(Buffer.concat(runner.peers[1]?.raw ?? []).toString()).toBe('c');

    const closed = await client.exec(1n, { argv: ['cat'], stdin: 'stream' });
    failures = 1;
    expect(await failureOf(closed.closeStdin())).toMatchObject({ code: 'runner_lost' });
    expect(runner.peers).toHaveLength(2);
    await closed.closeStdin();
    expect(runner.peers).toHaveLength(3);
    await runner.peers[2]?.ended;
    await client.close();
  });
});
