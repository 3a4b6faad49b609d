/** `kill -9` of Node under `boxkite sidecar`: its interpreter goes on. */
import { lane, startSidecar, type TestSidecar } from '@boxkite/testing';
import { describe, expect, it } from 'vitest';

async function run(sidecar: TestSidecar, code: string, timeout = 60): Promise<Record<string, unknown>> {
  const answer = await sidecar.call('POST', '/interpreter/exec', { body: { code, timeout } });
  expect(answer.status).toBe(200);
  return (await answer.json()) as Record<string, unknown>;
}

describe(`an interpreter of boxkite sidecar, ${lane}`, () => {
  it('keeps its state and its budget over kill -9 of Node, in a call and between calls', async () => {
    const env = { SIDECAR_TLS_DISABLED: 'true', SANDBOX_SESSION_MAX_EXEC_COUNT: '5' };
    await using sidecar = await startSidecar({ env });
    await run(sidecar, 'x = 1');
    await sidecar.killNode();
    expect(await run(sidecar, 'x + 1')).toMatchObject({ result: '2', fresh: false });
    const broken = run(sidecar, 'import os, time\nx = 5\nwhile True: os.write(1, b"z" * 100); time.sleep(0.001)');
    const gone = broken.then(
      () => 'answered',
      () => 'broken',
    );
    await expect
      .poll(async () => ((await (await sidecar.call('GET', '/interpreter/status')).json()) as { busy: boolean }).busy, {
        timeout: 20_000,
      })
      .toBe(true);
    await sidecar.killNode();
    expect(await gone).toBe('broken');
    expect(await run(sidecar, 'x')).toMatchObject({ result: '5', stdout: '', fresh: false, state: 'kept' });
    await sidecar.killNode();
    // Five calls were made, whoever counted them.
    await run(sidecar, 'x');
    const refused = await sidecar.call('POST', '/interpreter/exec', { body: { code: 'x' } });
    expect(refused.status).toBe(403);
    expect(await (await sidecar.call('GET', '/interpreter/status')).json()).toMatchObject({ running: false });
  });
});
