import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startDetached } from '../../src/serve/detach.ts';
import { type DaemonPlaces, daemonLayout } from '../../src/serve/places.ts';

let base = '';
let places: DaemonPlaces;
let server: Server | null = null;

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'boxkite-detach-'));
  places = daemonLayout({ data: join(base, 'data'), runtime: join(base, 'daemon') });
  mkdirSync(places.data);
});
afterEach(() => {
  server?.close();
  server = null;
  rmSync(base, { recursive: true, force: true });
});

const start = (script: string): Promise<number> => startDetached(places, ['/bin/sh', '-c', script], {});

test('the reason that a daemon gives for its end is the error, with its code and hint', async () => {
  await expect(
    start(
      'printf \'boxkite: /x can not be used: no (data_unusable)\\nhint: Do this.\\n{"level":60}\\nlater\\n\' >&2; exit 78',
    ),
  ).rejects.toMatchObject({ code: 'data_unusable', message: '/x can not be used: no', hint: 'Do this.' });
});

test('without a reason the error has the last line alone, and the log has all of it', async () => {
  await expect(start('echo first >&2; echo last >&2; exit 1')).rejects.toMatchObject({
    code: 'runner_failed',
    message: 'the daemon ended at its start: last',
    hint: expect.stringContaining(places.log) as string,
  });
  expect(readFileSync(places.log, 'utf8')).toBe('first\nlast\n');
  await expect(start('exit 1')).rejects.toThrow(/it said nothing/);
});

test('the log is added to, and one of more than 8 MiB is put aside', async () => {
  writeFileSync(places.log, 'of an earlier start\n');
  await expect(start('exit 1')).rejects.toThrow();
  expect(readFileSync(places.log, 'utf8')).toBe('of an earlier start\n');
  truncateSync(places.log, (8 << 20) + 1);
  await expect(start('echo new >&2; exit 1')).rejects.toThrow();
  expect(readFileSync(places.log, 'utf8')).toBe('new\n');
  expect(statSync(`${places.log}.1`).size).toBe((8 << 20) + 1);
});

test('the answer of another daemon at the same socket is none of the one that is started', async () => {
  mkdirSync(dirname(places.socket), { recursive: true });
  server = createServer((_request, answer) => answer.end('{"status":"ok"}'));
  await new Promise<void>((resolve) => server?.listen(places.socket, resolve));
  await expect(start('sleep 0.5; exit 1')).rejects.toMatchObject({ code: 'runner_failed' });
});
