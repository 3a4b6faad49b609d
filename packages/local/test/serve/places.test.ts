import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { daemonPlaces } from '../../src/serve/places.ts';

const base = mkdtempSync(join(tmpdir(), 'boxkite-places-'));
afterAll(() => rmSync(base, { recursive: true, force: true }));

const user = { uid: process.geteuid?.() === 0 ? 12_345 : (process.geteuid?.() ?? 0), home: '/nonexistent/home' };

test('root has the places of the system', () => {
  const places = daemonPlaces({ uid: 0, home: '/nonexistent', stateHome: '/elsewhere' });
  expect(places.data).toBe('/var/lib/boxkite');
  expect(places.socket).toBe('/run/boxkite/daemon/node/boxkite.sock');
  expect(places.key).toBe('/run/boxkite/daemon/node/key');
});

test('a user has places of their own, by their environment', () => {
  expect(daemonPlaces({ ...user, temporaryDirectory: base }).data).toBe('/nonexistent/home/.local/state/boxkite');
  expect(daemonPlaces({ ...user, stateHome: '/s', temporaryDirectory: base }).data).toBe('/s/boxkite');
  // A relative one is to be ignored (XDG base directory specification).
  expect(daemonPlaces({ ...user, stateHome: 's', temporaryDirectory: base }).data).toBe(
    '/nonexistent/home/.local/state/boxkite',
  );
  expect(daemonPlaces({ ...user, runtimeDirectory: '/nonexistent', temporaryDirectory: base }).runtime).toBe(
    join(base, `boxkite-${user.uid}`, 'daemon'),
  );
});

test('another data directory has another run, the same by whatever name', () => {
  mkdirSync(join(base, 'real'));
  symlinkSync('real', join(base, 'link'));
  const at = (data: string) => daemonPlaces({ ...user, temporaryDirectory: base, data });
  const real = at(join(base, 'real'));
  expect(real.data).toBe(join(base, 'real'));
  expect(real.runtime).toMatch(/\/daemon-[0-9a-f]{8}$/);
  expect(at(join(base, 'link'))).toEqual(real);
  expect(at(join(base, 'link', 'new')).data).toBe(join(base, 'real', 'new'));
  expect(at(join(base, 'other')).runtime).not.toBe(real.runtime);
  const usual = daemonPlaces({ ...user, temporaryDirectory: base });
  expect(at(usual.data)).toEqual(usual);
});

test('a path that no socket can have is refused', () => {
  const deep = join(base, 'x'.repeat(100));
  expect(() => daemonPlaces({ ...user, temporaryDirectory: deep })).toThrow(/too long for a socket/);
});
