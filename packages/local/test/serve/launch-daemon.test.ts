import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { checkServe, type ServeOptions } from '../../src/serve/launch-daemon.ts';
import { daemonPlaces } from '../../src/serve/places.ts';

const base = mkdtempSync(join(tmpdir(), 'boxkite-launch-'));
const roots = join(base, 'roots');
mkdirSync(join(roots, 'debian'), { recursive: true });
symlinkSync('debian', join(roots, 'link'));
afterAll(() => rmSync(base, { recursive: true, force: true }));

const places = daemonPlaces({ uid: 1, home: base, stateHome: join(base, 'state'), temporaryDirectory: base });
const check = (options: ServeOptions) => checkServe(options, places);

describe('what an operator asks for', () => {
  test('has defaults, and nothing is made by looking at it', async () => {
    expect(await check({})).toEqual({
      allowedCommands: 'null',
      listen: [],
      tls: null,
      roots: [],
      maxSandboxes: 2000,
      blanks: 4,
      idleSeconds: 60,
      ceilings: {},
    });
    expect(readdirSync(base)).toEqual(['roots']);
  });

  test('names roots by their real directories', async () => {
    const { roots: found } = await check({
      roots: [
        { name: 'debian', directory: join(roots, 'debian') },
        { name: 'other-2.0', directory: join(roots, 'link') },
      ],
    });
    expect(found).toEqual([
      { name: 'debian', directory: join(roots, 'debian') },
      { name: 'other-2.0', directory: join(roots, 'debian') },
    ]);
  });

  test.each<readonly [string, ServeOptions]>([
    ['the name of the host', { roots: [{ name: 'host', directory: roots }] }],
    ['a name twice', { roots: ['x', 'x'].map((name) => ({ name, directory: roots })) }],
    ['a name like an option', { roots: [{ name: '-x', directory: roots }] }],
    ['a name like a path', { roots: [{ name: '../x', directory: roots }] }],
    ['a directory that is not there', { roots: [{ name: 'x', directory: join(roots, 'missing') }] }],
    ['the whole machine as a root', { roots: [{ name: 'x', directory: '/' }] }],
    ['no sandbox at all', { maxSandboxes: 0 }],
    ['more sandboxes than a supervisor keeps', { maxSandboxes: 8001 }],
    ['half a blank', { blanks: 0.5 }],
    ['too many blanks', { blanks: 65 }],
    ['no idle time', { idleSeconds: 0 }],
    ['an address beyond this machine', { listen: ['0.0.0.0:8090'] }],
    ['a list of commands with a blank name', { allowedCommands: { text: '["ls", ""]', name: 'list.json' } }],
    ['an address twice', { listen: ['127.0.0.1:8090', '127.0.0.1'] }],
    [
      'more addresses than a supervisor has',
      { listen: Array.from({ length: 15 }, (_, index) => `127.0.0.1:${index + 1}`) },
    ],
    ['a TLS pair for no address', { tls: { certificate: 'c', key: 'k' } }],
  ])('is refused: %s', async (_what, options) => {
    await expect(check(options)).rejects.toMatchObject({ code: 'invalid_request' });
  });
});
