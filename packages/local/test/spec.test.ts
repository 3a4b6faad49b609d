import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { assertLinux } from '../src/provider.ts';
import { openRequest, rootOf } from '../src/spec.ts';

let base = '';

beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), 'boxkite-spec-'));
});

afterAll(() => {
  rmSync(base, { recursive: true, force: true });
});

test('defaults are limits that may be measured as none', () => {
  expect(openRequest({})).toEqual({
    memoryBytes: 1024 * 1024 * 1024,
    workspaceBytes: 1024 * 1024 * 1024,
    inodes: 262_144,
    pids: 256,
    cpuMillis: 0,
    root: 0,
    fresh: false,
    requireMemory: false,
    requireCpu: false,
  });
});

test('what is out of its range is refused with the range, and a hint that says more than the message', () => {
  for (const memory_mb of [0, 15, 16.5]) {
    expect(() => openRequest({ memory_mb })).toThrow(/^memory_mb is to be a whole number from 16 to \d+$/);
    expect(() => openRequest({ memory_mb })).toThrow(
      expect.objectContaining({ hint: 'Choose one in this range, or leave it out for the default.' }),
    );
  }
});

test('what is asked for is required', () => {
  const request = openRequest({ memory_mb: 64, cpus: 0.5, pids: 10, workspace_mb: 5, inodes: 100, fresh: true });
  expect(request).toMatchObject({
    memoryBytes: 64 * 1024 * 1024,
    cpuMillis: 500,
    requireMemory: true,
    requireCpu: true,
    pids: 10,
    workspaceBytes: 5 * 1024 * 1024,
    inodes: 100,
    fresh: true,
  });
});

test.each([
  ['memory_mb', 0],
  ['memory_mb', 15],
  ['memory_mb', 1.5],
  ['memory_mb', Number.NaN],
  ['pids', -1],
  ['pids', Number.POSITIVE_INFINITY],
  ['cpus', 0],
  ['workspace_mb', 2 ** 40],
  ['inodes', 2 ** 30 + 1],
] as const)('%s %s is refused by name', (field, value) => {
  expect(() => openRequest({ [field]: value })).toThrow(
    expect.objectContaining({ code: 'invalid_request', details: { field } }),
  );
});

test('the host is the default root; another one is named by its real path', () => {
  symlinkSync(base, join(base, 'link'));
  expect(rootOf({})).toBe('host');
  expect(rootOf({ rootfs: join(base, 'link') })).toBe(rootOf({ rootfs: base }));
});

test.each([
  ['missing', /is not there/],
  ['file', /is not a directory/],
  ['/', /would show all files/],
  ['a\0b', /path of a directory/],
] as const)('the root %j is refused', (name, message) => {
  writeFileSync(join(base, 'file'), '');
  const rootfs = name.startsWith('/') ? name : join(base, name);
  expect(() => rootOf({ rootfs })).toThrow(message);
  expect(() => rootOf({ rootfs })).toThrow(BoxkiteError);
});

test('other platforms get one sentence and what to do instead', () => {
  expect(() => assertLinux('darwin')).toThrow(
    expect.objectContaining({
      code: 'unsupported_platform',
      message: 'boxkite runs sandboxes on Linux, and this is darwin',
    }),
  );
  expect(() => assertLinux('linux')).not.toThrow();
});
