import type { SandboxProvider } from '@boxkite/protocol';
import { effectiveSchema } from '@boxkite/protocol';
import { describe, expect, it } from 'vitest';
import { bytesOf, codeOf, itemsOf, shIn } from './subject.ts';

/** From create to nothing left. */
export function lifeContract(provider: () => SandboxProvider): void {
  describe('the life of a sandbox', () => {
    it('works when create resolves, and says what was measured', async () => {
      const sandbox = await provider().create({ workspace_mb: 32 });
      try {
        expect(effectiveSchema.parse(sandbox.effective)).toMatchObject({
          no_new_privs: true,
          seccomp: 'filter',
          network: 'none',
          user: { uid: 1001, gid: 1001 },
        });
        expect(sandbox.effective.workspace.bytes).toBeGreaterThanOrEqual(31 * 1024 * 1024);
        expect((await shIn(sandbox, 'echo works')).stdout.toString()).toBe('works\n');
      } finally {
        await sandbox.destroy();
      }
    });

    it('is destroyed once, however often it is asked, and works no more', async () => {
      const sandbox = await provider().create({});
      await Promise.all(Array.from({ length: 10 }, async () => await sandbox.destroy()));
      await sandbox.destroy();
      expect(['closing', 'not_found', 'sandbox_not_ready']).toContain(await codeOf(shIn(sandbox, 'true')));
      expect(['closing', 'not_found', 'sandbox_not_ready']).toContain(await codeOf(bytesOf(sandbox.files.read('x'))));
    });

    it('ends what runs in it when it is destroyed', async () => {
      const sandbox = await provider().create({});
      const handle = await sandbox.exec({ argv: ['/bin/sleep', '600'] });
      const ended = (async (): Promise<string> => {
        try {
          for await (const event of handle) if (event.type === 'ended') return event.record.end;
          return 'no record';
        } catch (error) {
          return error instanceof Error && 'code' in error ? String(error.code) : 'not a failure of ours';
        }
      })();
      await sandbox.destroy();
      expect(['killed', 'lost', 'closing', 'not_found']).toContain(await ended);
    });

    it('is not made when its create is aborted', async () => {
      const abort = new AbortController();
      const creating = provider().create({}, abort.signal);
      abort.abort();
      await expect(creating).rejects.toMatchObject({ code: 'aborted' });
      await expect(provider().create({}, AbortSignal.abort())).rejects.toMatchObject({ code: 'aborted' });
    });

    it('shares nothing with another one', async () => {
      const [one, two] = await Promise.all([provider().create({}), provider().create({})]);
      try {
        await one.files.write('mine.txt', Buffer.from('one'));
        await one.files.write('/tmp/mine.txt', Buffer.from('one'));
        const sleeper = await one.exec({ argv: ['/bin/sleep', '611'] });
        expect((await itemsOf(two.files.list('/workspace'))).length).toBe(0);
        expect((await itemsOf(two.files.list('/tmp'))).length).toBe(0);
        const look = await shIn(two, 'cat /proc/[0-9]*/cmdline | tr "\\0" " "; ls /workspace /tmp');
        expect(look.stdout.toString()).not.toContain('611');
        expect(look.stdout.toString()).not.toContain('mine');
        await sleeper.kill();
      } finally {
        await Promise.all([one.destroy(), two.destroy()]);
      }
    });

    it.each([
      [{ memory_mb: 0 }],
      [{ pids: -1 }],
      [{ workspace_mb: 1.5 }],
      [{ cpus: Number.NaN }],
      [{ inodes: 1e12 }],
      [{ rootfs: '/no/such/root' }],
    ])('refuses %j and makes nothing', async (spec) => {
      await expect(provider().create(spec)).rejects.toMatchObject({ code: 'invalid_request' });
    });

    it('makes and destroys many at once', async () => {
      const rounds = Array.from({ length: 20 }, async (_unused, index) => {
        const sandbox = await provider().create({ workspace_mb: 16 });
        const { stdout } = await shIn(sandbox, `echo ${index} > n; cat n`);
        await sandbox.destroy();
        return Number(stdout.toString());
      });
      expect(await Promise.all(rounds)).toEqual(rounds.map((_unused, index) => index));
    });
  });
}
