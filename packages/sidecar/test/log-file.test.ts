import { readdirSync, readlinkSync } from 'node:fs';
import { expect, it, vi } from 'vitest';
import { Host } from './support/sessions.ts';

const disk = vi.hoisted(() => ({ broken: '', opened: new Map<number, string>() }));

vi.mock('../src/records/disk.ts', async (original) => {
  const real = await original<typeof import('../src/records/disk.ts')>();
  return {
    ...real,
    openFile: async (path: string, flags: string, mode?: number) => {
      const fd = await real.openFile(path, flags, mode);
      disk.opened.set(fd, path);
      return fd;
    },
    readAt: (fd: number, length: number, position: number) =>
      disk.broken !== '' && disk.opened.get(fd)?.endsWith(disk.broken) === true
        ? Promise.reject(Object.assign(new Error('input/output error'), { code: 'EIO' }))
        : real.readAt(fd, length, position),
  };
});

/** Files of a directory that this process has open. */
function openIn(directory: string): readonly string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`);
      return path.startsWith(directory) ? [path.slice(directory.length + 1)] : [];
    } catch {
      return [];
    }
  });
}

it('records that can not be read are opened by nobody', async () => {
  const output = (['stdout', 'stderr'] as const).map((stream) => ({ stream, data: Buffer.alloc(200_000, 'text ') }));
  await using host = await Host.start({ plan: output }, ['plan']);
  await host.start('plan');
  await host.start('plan');
  await expect.poll(() => openIn(host.directory).filter((name) => name.startsWith('log-')).length).toBe(4);
  await host.session.close();
  expect(openIn(host.directory)).toEqual([]);
  disk.broken = 'log-2-stderr';
  await expect(host.open()).rejects.toThrow('input/output error');
  expect(openIn(host.directory)).toEqual([]);
  disk.broken = '';
  await host.open();
  expect(await host.session.execs.list()).toHaveLength(2);
});
