/** What `boxkite sidecar` keeps of a session: over kill -9 of Node, in the middle of storing too, and over its own end. */
import { rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { lane, makeDataDirectory, sleep, startSidecar, type TestSidecar, within } from '@boxkite/testing';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const LONG = within(240_000);
const execAnswer = z.object({ exit_code: z.number(), stdout: z.string(), stderr: z.string() });
const flushAnswer = z.object({ status: z.string(), storage_keys: z.array(z.string()), pending: z.array(z.unknown()) });
const TREE = "find . -mindepth 1 -printf '%p %y %m %l\\n' -type f -exec sha256sum {} + | sort";

async function post(sidecar: TestSidecar, path: string, body?: object): Promise<unknown> {
  const answer = await sidecar.call('POST', path, body === undefined ? {} : { body });
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  return JSON.parse(text);
}

async function sh(sidecar: TestSidecar, command: string): Promise<string> {
  const { exit_code, stdout, stderr } = execAnswer.parse(await post(sidecar, '/exec', { command }));
  expect(exit_code, stderr).toBe(0);
  return stdout;
}

describe(`what a sidecar keeps, ${lane}`, () => {
  it('is there after its end, with what was written last', { timeout: LONG }, async () => {
    const data = makeDataDirectory();
    try {
      const configuration = { session_id: 's', storage_prefix: 'sessions/org/s' };
      await using first = await startSidecar({ data });
      await post(first, '/configure', configuration);
      await sh(
        first,
        'mkdir empty && printf "#!/bin/sh\\necho ran\\n" > run.sh && chmod 755 run.sh && ln -s run.sh link',
      );
      await post(first, '/scratch/set', { key: 'k', value: 'noted' });
      await post(first, '/ensure-skills', {
        skills: [{ instance_slug: 'a', files: [{ path: 'f', content: 'F' }] }],
        skills_rev: 'r',
      });
      await first.killNode();
      expect(await (await first.call('GET', '/scratch/get?key=k')).json()).toEqual({
        key: 'k',
        value: 'noted',
        found: true,
      });
      expect(await post(first, '/ensure-skills', { skills: [], skills_rev: 'r' })).toMatchObject({
        status: 'unchanged',
      });
      expect(await (await first.call('GET', '/health')).json()).toMatchObject({
        skills_rev: 'r',
        storage_backend: 'fs',
      });
      // Nobody asks for a flush: an orderly stop is one.
      const tree = await sh(first, TREE);
      expect(await first.stop()).toEqual({ code: 0, signal: null });
      await using second = await startSidecar({ data });
      expect(await sh(second, 'ls -A')).toBe('');
      expect(await post(second, '/configure', configuration)).toMatchObject({ prefetched_files: ['workspace/run.sh'] });
      expect(await sh(second, TREE)).toBe(tree);
      expect(await sh(second, './link; cat /mnt/skills/a/f 2>/dev/null || echo none')).toBe('ran\nnone\n');
      expect(await (await second.call('GET', '/scratch/list')).json()).toMatchObject({ keys: 0 });
    } finally {
      rmSync(dirname(data), { recursive: true, force: true });
    }
  });

  it('is whole after kill -9 of Node at any moment of a flush', { timeout: LONG }, async () => {
    await using sidecar = await startSidecar({
      env: { SIDECAR_TLS_DISABLED: 'true', SYNC_STABLE_CHECK_INTERVAL_MS: '0' },
    });
    const configuration = { session_id: 's', storage_prefix: 'p' };
    await post(sidecar, '/configure', configuration);
    for (let round = 0; round < 4; round += 1) {
      await sh(
        sidecar,
        `rm -rf gone${round - 1}; mkdir -p d gone${round}; for n in $(seq 150); do echo ${round} $n > d/$n; done; echo x > gone${round}/x`,
      );
      const flushing = sidecar.call('POST', '/flush').then(
        (answer) => answer.status,
        () => null,
      );
      await sleep(30 + 60 * round);
      await sidecar.killNode();
      await flushing;
    }
    const tree = await sh(sidecar, TREE);
    const { status, storage_keys, pending } = flushAnswer.parse(await post(sidecar, '/flush/confirmed'));
    expect([status, pending, storage_keys.length]).toEqual(['flushed', [], 151]);
    // The same files for another use, from the store alone.
    await post(sidecar, '/configure', { ...configuration, session_id: 'other' });
    expect(await sh(sidecar, TREE)).toBe(tree);
  });
});
