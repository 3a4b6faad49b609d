import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { closure, readInstalled } from './debian-files.ts';
import { packInitrd } from './initrd.ts';
import { modulesInOrder, needsOf } from './modules.ts';
import { LEFT_OUT, laneFiles, USER_FILES } from './plan.ts';
import { takeResults } from './results.ts';

const ROOT = join(import.meta.dirname, '..', '..');

let place = '';
beforeEach(() => {
  place = mkdtempSync(join(tmpdir(), 'boxkite-v2-test-'));
});
afterEach(() => {
  rmSync(place, { recursive: true });
});

describe('the plan', () => {
  test('has every file that needs a sandbox, but those with a reason', () => {
    const files = laneFiles(ROOT);
    expect(files).toEqual(expect.arrayContaining(['tests/contract/kill.test.ts', 'tests/security/posture.test.ts']));
    expect(laneFiles(ROOT, [])).toEqual(expect.arrayContaining([...USER_FILES]));
    for (const { file, reason } of LEFT_OUT) {
      expect(files).not.toContain(file);
      expect(reason.length).toBeGreaterThan(30);
    }
  });

  test('refuses an entry that names no file', () => {
    const stale = { file: 'tests/contract/none.test.ts', reason: '' };
    expect(() => laneFiles(ROOT, [stale])).toThrow('tests/contract/none.test.ts');
  });
});

describe('packages', () => {
  const line = (name: string, needs = '', provides = '', status = 'ii ') =>
    [status, name, needs, '', provides].join('\t');
  const installed = readInstalled(
    [
      line('a', 'b (>= 1), c:any | virtual'),
      line('b'),
      line('d', 'a', 'virtual (= 2)'),
      line('e'),
      line('f', '', '', 'rc '),
    ].join('\n'),
  );

  test('come with all that they need, by whatever name', () => {
    expect(closure(installed, ['a'])).toEqual(['a', 'b', 'd']);
  });

  test.each(['f', 'g'])('%s, which is not installed, is an error', (name) => {
    expect(() => closure(installed, ['a', name])).toThrow(name);
  });
});

describe('modules', () => {
  const module = (needs: string) => Buffer.from(`\x7fELF\0license=GPL\0depends=${needs}\0name=x\0`, 'latin1');

  test('say what they need', () => {
    expect(needsOf(module('virtio,virtio-ring'))).toEqual(['virtio', 'virtio_ring']);
    expect(needsOf(module(''))).toEqual([]);
  });

  test('come after what they need, once, unless they are built in', () => {
    mkdirSync(join(place, 'kernel'));
    writeFileSync(join(place, 'kernel', 'disk-driver.ko'), module('bus,core'));
    writeFileSync(join(place, 'kernel', 'bus.ko'), module('core'));
    writeFileSync(join(place, 'kernel', 'core.ko'), module(''));
    writeFileSync(join(place, 'modules.builtin'), 'kernel/fs/ext4.ko\n');
    const names = modulesInOrder(place, ['disk_driver', 'ext4', 'bus']).map(({ name }) => name);
    expect(names).toEqual(['core', 'bus', 'disk_driver']);
    expect(() => modulesInOrder(place, ['none'])).toThrow('none');
  });
});

test('the initial file system can be unpacked', () => {
  const module = { name: 'm', bytes: Buffer.alloc(4097, 'x') };
  const archive = packInitrd(Buffer.from('busybox'), Buffer.from('init!'), [module]);
  const fields = (at: number) => {
    const number = (index: number) =>
      Number.parseInt(archive.toString('latin1', at + 6 + index * 8, at + 14 + index * 8), 16);
    const name = archive.toString('latin1', at + 110, at + 110 + number(11) - 1);
    const data = Math.ceil((at + 110 + number(11)) / 4) * 4;
    return { magic: archive.toString('latin1', at, at + 6), mode: number(1), name, data, size: number(6) };
  };
  const found = new Map<string, string>();
  for (let at = 0; at < archive.length; ) {
    const entry = fields(at);
    expect(entry.magic).toBe('070701');
    found.set(
      entry.name,
      `${entry.mode.toString(8)} ${archive.toString('latin1', entry.data, entry.data + entry.size)}`,
    );
    at = Math.ceil((entry.data + entry.size) / 4) * 4;
  }
  expect([...found]).toEqual([
    ['busybox', '100755 busybox'],
    ['init', '100755 init!'],
    ['modules', '40755 '],
    ['modules/order', '100644 m\n'],
    ['modules/m.ko', `100644 ${'x'.repeat(4097)}`],
    ['TRAILER!!!', '0 '],
  ]);
});

describe('results', () => {
  const disk = (...records: string[]) => {
    mkdirSync(join(place, 'guest'));
    mkdirSync(join(place, 'out'));
    for (const lane of records) writeFileSync(join(place, 'guest', `${lane}.lane.json`), '{"vitest":0}');
    execFileSync('tar', ['-C', join(place, 'guest'), '-cf', join(place, 'disk'), '.']);
    return join(place, 'disk');
  };
  const statusOf = (lane: string) => {
    const found: unknown = JSON.parse(readFileSync(join(place, 'out', `${lane}.lane.json`), 'utf8'));
    return found;
  };

  test('are what the guest left', () => {
    expect(takeResults(disk('v2-root'), join(place, 'out'), ['v2-root'], false)).toEqual([]);
    expect(statusOf('v2-root')).toEqual({ vitest: 0 });
  });

  test.each([
    [true, 124],
    [false, 1],
  ])('of a lane that has none are a failure (late: %s)', (late, status) => {
    expect(takeResults(disk('v2-root'), join(place, 'out'), ['v2-root', 'v2-user'], late)).toEqual(['v2-user']);
    expect(statusOf('v2-user')).toMatchObject({ lane: 'v2-user', vitest: status });
  });

  test('of a guest that wrote nothing are a failure', () => {
    mkdirSync(join(place, 'out'));
    writeFileSync(join(place, 'disk'), Buffer.alloc(65_536));
    expect(takeResults(join(place, 'disk'), join(place, 'out'), ['v2-root'], false)).toEqual(['v2-root']);
    expect(readdirSync(join(place, 'out'))).toEqual(['v2-root.lane.json']);
  });
});

test('a name that means no test file is refused before the machine is started', () => {
  const { status, stderr } = spawnSync(join(ROOT, 'tools', 'v2', 'test'), ['tests/contract/none.test.ts']);
  expect(status).toBe(2);
  expect(String(stderr)).toContain('there is no test file tests/contract/none.test.ts');
});
