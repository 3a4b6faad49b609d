import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { sidecarPlaces } from '../../src/serve/places.ts';
import { sidecarToken } from '../../src/serve/sidecar-token.ts';

const base = mkdtempSync(join(tmpdir(), 'boxkite-launch-sidecar-'));
afterAll(() => rmSync(base, { recursive: true, force: true }));

function file(name: string, content: string | Buffer): string {
  writeFileSync(join(base, name), content, { mode: 0o600 });
  return join(base, name);
}

describe('the token', () => {
  test.each<readonly [string, Record<string, string>, string | null]>([
    ['unset', {}, null],
    ['blank', { SIDECAR_AUTH_TOKEN: ' \n\t' }, null],
    ['the placeholder', { SIDECAR_AUTH_TOKEN: 'CHANGEME-generate-a-random-per-pod-secret-see-comment-above ' }, null],
    ['without the blanks around it', { SIDECAR_AUTH_TOKEN: ' a b\n' }, 'a b'],
    ['a blank name of a file', { SIDECAR_AUTH_TOKEN_FILE: ' ', SIDECAR_AUTH_TOKEN: 'x' }, 'x'],
    [
      'from its file first',
      { SIDECAR_AUTH_TOKEN_FILE: file('token', 'of-the-file\n'), SIDECAR_AUTH_TOKEN: 'x' },
      'of-the-file',
    ],
    ['an empty file', { SIDECAR_AUTH_TOKEN_FILE: file('empty', '\n'), SIDECAR_AUTH_TOKEN: 'x' }, null],
  ])('%s', (_what, environment, token) => {
    expect(sidecarToken(environment)).toBe(token);
  });

  test.each<readonly [string, Record<string, string>]>([
    ['letters that no header carries', { SIDECAR_AUTH_TOKEN: 'schl\u00fcssel' }],
    ['two lines', { SIDECAR_AUTH_TOKEN: 'secret\nsecret' }],
    ['too much', { SIDECAR_AUTH_TOKEN: 'secret'.repeat(1000) }],
    ['bytes that are no text', { SIDECAR_AUTH_TOKEN_FILE: file('bytes', Buffer.of(0xff, 0xfe)) }],
    ['a file that is too long', { SIDECAR_AUTH_TOKEN_FILE: file('long', ' '.repeat(10_000)) }],
    ['a directory', { SIDECAR_AUTH_TOKEN_FILE: base }],
    ['a file that is not there', { SIDECAR_AUTH_TOKEN_FILE: join(base, 'missing') }],
  ])('is refused, and not shown: %s', (_what, environment) => {
    expect(() => sidecarToken(environment)).toThrow(expect.objectContaining({ code: 'invalid_request' }));
    expect(() => sidecarToken(environment)).not.toThrow(/secret/);
  });
});

test('a sidecar has other places than a daemon, whatever its data', () => {
  const root = sidecarPlaces({ uid: 0, home: '/nonexistent' });
  expect(root).toMatchObject({
    usual: false,
    data: '/var/lib/boxkite-sidecar',
    runtime: '/run/boxkite/sidecar',
    nodeData: '/var/lib/boxkite-sidecar/sidecar',
    state: '/var/lib/boxkite-sidecar/sidecar-state',
  });
  expect(sidecarPlaces({ uid: 0, home: '/nonexistent', data: '/elsewhere' }).runtime).toMatch(/\/sidecar-[0-9a-f]{8}$/);
  const user = { uid: 12_345, home: '/nonexistent/u', temporaryDirectory: base };
  expect(sidecarPlaces(user).data).toBe('/nonexistent/u/.local/state/boxkite-sidecar');
});
