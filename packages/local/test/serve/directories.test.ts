import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ensureData, ensureRuntime } from '../../src/serve/directories.ts';
import { type DaemonPlaces, daemonLayout } from '../../src/serve/places.ts';

const uid = process.geteuid?.() ?? 0;
const SERVICE = 0x7ff0_0001;
let base = '';
let places: DaemonPlaces;
/** Prints an id, as `boxkite-runner service-id` does. */
let runner = '';

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'boxkite-directories-'));
  chmodSync(base, 0o755);
  mkdirSync(join(base, 'run'), { mode: 0o700 });
  places = daemonLayout({ data: join(base, 'data'), runtime: join(base, 'run', 'daemon') });
  runner = join(base, 'runner');
  writeFileSync(runner, `#!/bin/sh\n[ "$1" = service-id ] && echo ${SERVICE}\n`, { mode: 0o755 });
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const mode = (path: string): number => statSync(path).mode & 0o7777;

describe('data', () => {
  test('is its owner’s, whatever the umask', async () => {
    const before = process.umask(0);
    try {
      await ensureData(places, uid, runner);
    } finally {
      process.umask(before);
    }
    expect(mode(places.data)).toBe(uid === 0 ? 0o711 : 0o700);
    expect([places.nodeData, places.state].map(mode)).toEqual([0o700, 0o700]);
    expect(statSync(places.state).uid).toBe(uid);
  });

  test('has one user for ever', async () => {
    const first = await ensureData(places, uid, runner);
    expect(first).toBe(uid === 0 ? SERVICE : uid);
    expect(statSync(places.nodeData).uid).toBe(first);
    writeFileSync(runner, '#!/bin/sh\necho 1234567\n');
    expect(await ensureData(places, uid, runner)).toBe(first);
  });

  test('is refused where somebody else could change it', async () => {
    chmodSync(base, 0o777);
    await expect(ensureData(places, uid, runner)).rejects.toThrow(/others may change/);
    chmodSync(base, 0o1777);
    await ensureData(places, uid, runner);
  });

  test('is refused where a link or a file is in its place', async () => {
    mkdirSync(places.data, { mode: 0o700 });
    symlinkSync('/tmp', places.state);
    await expect(ensureData(places, uid, runner)).rejects.toMatchObject({ code: 'data_unusable' });
    rmSync(places.data, { recursive: true });
    writeFileSync(places.data, '');
    await expect(ensureData(places, uid, runner)).rejects.toThrow(/it is not a directory/);
  });

  test('is not taken from others: a directory with other files, or for everybody, stays as it is', async () => {
    mkdirSync(places.data, { mode: 0o755 });
    writeFileSync(join(places.data, 'thesis.tex'), '');
    await expect(ensureData(places, uid, runner)).rejects.toThrow(/holds other files/);
    rmSync(join(places.data, 'thesis.tex'));
    chmodSync(places.data, 0o1777);
    await expect(ensureData(places, uid, runner)).rejects.toThrow(/for everybody/);
    expect(mode(places.data)).toBe(0o1777);
    chmodSync(places.data, 0o755);
    mkdirSync(join(places.data, 'lost+found'));
    await ensureData(places, uid, runner);
    writeFileSync(join(places.data, 'notes'), '');
    await ensureData(places, uid, runner);
  });

  // `boxkite run` of an ordinary user with a range leaves these in the directory that is a daemon's by default.
  test('is taken where runners have left their locks of ids', async () => {
    mkdirSync(join(places.data, 'ids'), { recursive: true, mode: 0o700 });
    await ensureData(places, uid, runner);
    expect(mode(places.data)).toBe(uid === 0 ? 0o711 : 0o700);
  });

  if (uid === 0) {
    test('has the user that another launcher is just giving it', async () => {
      await ensureData(places, uid, runner);
      chownSync(places.nodeData, 0, 0);
      setTimeout(() => chownSync(places.nodeData, SERVICE + 5, SERVICE + 5), 100);
      expect(await ensureData(places, uid, runner)).toBe(SERVICE + 5);
    });

    test('gets its user where a launcher ended before it had one', async () => {
      await ensureData(places, uid, runner);
      chownSync(places.nodeData, 0, 0);
      expect(await ensureData(places, uid, runner)).toBe(SERVICE);
      expect(statSync(places.nodeData).uid).toBe(SERVICE);
    });

    test('is refused where the service can’t get to it', async () => {
      chmodSync(base, 0o700);
      await expect(ensureData(places, uid, runner)).rejects.toThrow(/can't pass through/);
    });
  }
});

describe('what belongs to a run', () => {
  test('is private, but for the way to what is the service’s', () => {
    const service = uid === 0 ? SERVICE : uid;
    const run = ensureRuntime(places, uid, service);
    const way = uid === 0 ? 0o711 : 0o700;
    expect([places.runtime, run].map(mode)).toEqual([way, way]);
    expect([places.node, places.runner].map(mode)).toEqual([0o700, 0o700]);
    expect(statSync(places.node).uid).toBe(service);
  });

  if (uid === 0) {
    test('is taken over by the user of new data', () => {
      ensureRuntime(places, uid, SERVICE);
      mkdirSync(join(places.node, 'unknown'));
      for (const path of [places.key, places.socket, join(places.node, 'unknown', 'file')]) writeFileSync(path, '');
      for (const path of [
        places.key,
        places.socket,
        join(places.node, 'unknown'),
        join(places.node, 'unknown', 'file'),
      ])
        chownSync(path, SERVICE, SERVICE);
      ensureRuntime(places, uid, SERVICE + 1);
      expect(statSync(places.node).uid).toBe(SERVICE + 1);
      expect(readdirSync(places.node)).toEqual([]);
    });

    test.each([
      ['a file', () => writeFileSync(places.node, '')],
      ['a link', () => symlinkSync('/tmp', places.node)],
      ['root’s', () => mkdirSync(places.node)],
      ['open to others', () => ensureRuntime(places, uid, SERVICE) && chmodSync(places.node, 0o777)],
    ])('replaces what has the place of Node’s directory: %s', (_what, make) => {
      ensureRuntime(places, uid, SERVICE);
      rmSync(places.node, { recursive: true });
      make();
      ensureRuntime(places, uid, SERVICE);
      expect([statSync(places.node).uid, mode(places.node)]).toEqual([SERVICE, 0o700]);
      expect(existsSync('/tmp')).toBe(true);
    });

    test('is not emptied by root: what its old user can not remove stays, and the start is refused', () => {
      ensureRuntime(places, uid, SERVICE);
      mkdirSync(join(places.node, 'roots'), { mode: 0o755 });
      writeFileSync(join(places.node, 'roots', 'file'), '');
      expect(() => ensureRuntime(places, uid, SERVICE + 1)).toThrow(/can't be used/);
      expect(existsSync(join(places.node, 'roots', 'file'))).toBe(true);
    });
  }
});
