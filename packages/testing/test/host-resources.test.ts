/** The counting must be able to find: what is not noticed when it is there proves nothing when it is gone. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { growth, leftovers, processesOf, resourcesOf } from '@boxkite/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

describe('what a runner holds on the host', () => {
  let base: string;

  beforeEach(() => {
    base = mkdtempSync(join(tmpdir(), 'boxkite-count-'));
  });
  afterEach(() => {
    rmSync(base, { recursive: true, force: true });
  });

  it('finds processes by parent and by program, files and descriptors', async () => {
    const before = resourcesOf(process.pid, base);
    expect(leftovers(base, [])).toEqual([]);
    copyFileSync('/usr/bin/sleep', join(base, 'sleep'));
    const child = spawn(join(base, 'sleep'), ['60'], { stdio: ['pipe', 'ignore', 'ignore'] });
    await once(child, 'spawn');
    const pid = child.pid ?? 0;
    try {
      mkdirSync(join(base, 'left'));
      writeFileSync(join(base, 'left', 'file'), 'x');
      const grown = growth(before, resourcesOf(process.pid, base));
      expect(grown.join('\n')).toContain(`processes: 1 more (${pid} sleep`);
      expect(grown.join('\n')).toContain(join(base, 'left', 'file'));
      expect(grown.some((line) => line.startsWith('descriptors: '))).toBe(true);
      // By its program alone: nobody's child.
      expect(processesOf(undefined, base).map((entry) => entry.pid)).toEqual([pid]);
      const left = leftovers(base, []);
      expect(left.some((line) => line.startsWith(`process ${pid} sleep`))).toBe(true);
      expect(left).toContain(`file ${join(base, 'left')}`);
    } finally {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    expect(processesOf(undefined, base)).toEqual([]);
  });

  it('counts, so that one thing in the place of another is no growth', () => {
    const resources = {
      processes: ['1 a'],
      namespaces: [],
      mounts: ['m'],
      cgroups: [],
      descriptors: ['socket', 'socket'],
      files: [],
    };
    expect(growth(resources, { ...resources, processes: ['2 b'] })).toEqual([]);
    expect(growth(resources, { ...resources, descriptors: ['socket', 'socket', 'socket'] })).toEqual([
      'descriptors: 1 more (socket)',
    ]);
    expect(growth(resources, { ...resources, mounts: [] })).toEqual([]);
  });
});
