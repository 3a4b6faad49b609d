/** Images and presented files by the reference's calls, over a real runner. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FsObjectStore } from '@boxkite/storage';
import { lane, makeBomb, makePng, pngHeader, startSidecar, within } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SessionClient } from './support/session-client.ts';
import { SessionHost } from './support/sessions.ts';

interface Image {
  readonly path: string;
  readonly mime_type: string;
  readonly size_bytes: number;
  readonly base64_data: string;
}

interface Presented {
  readonly files: readonly {
    readonly file_path: string;
    readonly presented_path: string;
    readonly storage_key: string;
    readonly size: number;
    readonly content_type: string;
  }[];
  readonly copy_operations: readonly string[];
  readonly skipped: readonly { readonly file_path: string; readonly reason: string }[];
}

interface Refusal {
  readonly error: { readonly code: string; readonly message: string };
}

const LONG = within(120_000);
let host: SessionHost;
let client: SessionClient;
let directory: string;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'boxkite-objects-'));
  host = await SessionHost.start();
  host.objects = await FsObjectStore.open(directory);
  client = await SessionClient.open(await host.open('images'));
  await client.post('/configure', { session_id: 'one', storage_prefix: 'work/one' });
}, LONG);

afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await host[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});

const put = (path: string, bytes: Uint8Array) => client.session.files.write(path, bytes);
const read = (path: string) => client.post<Image>('/read-image', { path, description: 'x' });
async function refusal(url: string, body: object): Promise<readonly [number, string]> {
  const { status, json } = await client.call<Refusal>('POST', url, body);
  return [status, json.error.code];
}

describe(`POST /read-image, ${lane}`, () => {
  it('shows an image no larger than needed', { timeout: LONG }, async () => {
    await put('wide.png', makePng(3000, 300));
    const image = await read('wide.png');
    const bytes = Buffer.from(image.base64_data, 'base64');
    expect(image).toMatchObject({ path: 'wide.png', mime_type: 'image/png', size_bytes: bytes.length });
    expect([bytes.readUInt32BE(16), bytes.readUInt32BE(20)]).toEqual([2048, 205]);
  });

  it.each([
    ['an SVG', 'drawing.svg', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'), 'image/svg+xml'],
    ['a GIF', 'x.gif', Buffer.from('GIF89a\x01\0\x01\0\0\0\0;', 'latin1'), 'image/gif'],
    ['a PNG that is cut', 'cut.png', makePng(100, 100).subarray(0, 700), 'image/png'],
    ['one of another name', 'photo.jpg', makePng(4, 4).subarray(0, 60), 'image/png'],
    ['one of 1,600 million pixels', 'bomb.png', pngHeader(40_000, 40_000), 'image/png'],
    [
      'one that is a program too',
      'both.png',
      Buffer.concat([makePng(2, 2).subarray(0, 50), Buffer.from('#!/bin/sh')]),
      'image/png',
    ],
  ])('shows %s as it is', async (_what, path, bytes, mime) => {
    await put(path, bytes);
    const image = await read(path);
    expect([image.mime_type, image.base64_data]).toEqual([mime, bytes.toString('base64')]);
  });

  it('is not stopped by an image that unpacks to gigabytes', { timeout: LONG }, async () => {
    const bomb = makeBomb(6300, 6300);
    await put('black.png', bomb);
    const [image] = await Promise.all([read('black.png'), client.post('/view', { path: 'drawing.svg' })]);
    expect(image.mime_type).toBe('image/png');
    expect(image.size_bytes).toBeLessThanOrEqual(bomb.length);
  });

  it('shows one made smaller by the user that a service runs as', { timeout: LONG }, async () => {
    await using sidecar = await startSidecar();
    const post = async (path: string, body: object): Promise<Response> => {
      const answer = await sidecar.call('POST', path, { body });
      if (answer.status !== 200) throw new Error(`${path}: ${await answer.text()}`);
      return answer;
    };
    const base64 = makePng(3000, 2).toString('base64');
    await post('/exec', { command: `echo ${base64} | base64 -d > wide.png` });
    const image = (await (await post('/read-image', { path: 'wide.png', description: 'x' })).json()) as Image;
    expect(Buffer.from(image.base64_data, 'base64').readUInt32BE(16)).toBe(2048);
  });

  it('refuses what is no image', { timeout: LONG }, async () => {
    await client.sh(
      'printf x > x.png; : > empty.png; mkdir d.png; truncate -s 52428801 huge.png; mkfifo f.png; ln -s /proc/self/environ out.png',
    );
    const refused: [string, readonly [number, string]][] = [];
    const paths = ['x.png', 'empty.png', 'd.png', 'huge.png', 'f.png', 'out.png', 'none.png', '/etc/x.png', 'a\0.png'];
    for (const path of paths) refused.push([path, await refusal('/read-image', { path })]);
    expect(refused).toEqual([
      ['x.png', [400, 'bad_request']],
      ['empty.png', [400, 'bad_request']],
      ['d.png', [400, 'bad_request']],
      ['huge.png', [400, 'bad_request']],
      ['f.png', [409, 'not_a_file']],
      ['out.png', [404, 'file_not_found']],
      ['none.png', [404, 'file_not_found']],
      ['/etc/x.png', [400, 'bad_request']],
      ['a\0.png', [400, 'bad_request']],
    ]);
  });
});

describe(`POST /present-files, ${lane}`, () => {
  const present = (...filepaths: string[]) => client.post<Presented>('/present-files', { filepaths });

  it('copies files among the outputs and stores them', async () => {
    await client.sh('mkdir -p a b; echo one > a/report.md; echo two > b/report.md; chmod 755 b/report.md');
    await client.sh('echo own > /mnt/user-data/outputs/own.csv; printf "\\0" > raw; printf "\\303\\251" > plain');
    const answer = await present(
      'a/report.md',
      'b/report.md',
      '/outputs/own.csv',
      'raw',
      'plain',
      'none',
      'a',
      'a/report.md',
    );
    expect(answer.copy_operations).toEqual([
      'Copied /workspace/a/report.md to /mnt/user-data/outputs/report.md',
      'Copied /workspace/b/report.md to /mnt/user-data/outputs/report-2.md',
      'Copied /workspace/raw to /mnt/user-data/outputs/raw',
      'Copied /workspace/plain to /mnt/user-data/outputs/plain',
    ]);
    expect(answer.files.map((file) => [file.file_path, file.storage_key, file.size, file.content_type])).toEqual([
      ['/workspace/a/report.md', 'work/one/outputs/report.md', 4, 'text/markdown'],
      ['/workspace/b/report.md', 'work/one/outputs/report-2.md', 4, 'text/markdown'],
      ['/mnt/user-data/outputs/own.csv', 'work/one/outputs/own.csv', 4, 'text/csv'],
      ['/workspace/raw', 'work/one/outputs/raw', 1, 'application/octet-stream'],
      ['/workspace/plain', 'work/one/outputs/plain', 2, 'text/plain'],
    ]);
    expect(answer.skipped).toEqual([
      { file_path: '/workspace/none', reason: 'is not there' },
      { file_path: '/workspace/a', reason: 'is not a regular file' },
    ]);
    const outputs = 'cd /mnt/user-data/outputs; cat report.md report-2.md own.csv; stat -c "%a %u" report-2.md';
    expect(await client.sh(outputs)).toBe('one\ntwo\nown\n755 1001\n');
    // Once more, with another content.
    await client.sh('echo three > a/report.md; chmod 444 /mnt/user-data/outputs/report.md');
    expect((await present('a/report.md')).files[0]).toMatchObject({
      size: 6,
      storage_key: 'work/one/outputs/report.md',
    });
  });

  it('never puts one file of a call over another that is already there', async () => {
    await client.sh('echo inner > inner.txt; echo outer > /mnt/user-data/outputs/inner.txt');
    const { files } = await present('inner.txt', '/outputs/inner.txt');
    expect(files.map(({ presented_path }) => presented_path)).toEqual([
      '/mnt/user-data/outputs/inner-2.txt',
      '/mnt/user-data/outputs/inner.txt',
    ]);
    expect(await client.sh('cd /mnt/user-data/outputs; cat inner.txt inner-2.txt')).toBe('outer\ninner\n');
  });

  it('copies nothing that leads out, and nothing without a store', async () => {
    await client.sh('ln -s /etc/passwd secret; echo x > fine');
    const { files, skipped } = await present('secret');
    expect([files, skipped]).toEqual([[], [{ file_path: '/workspace/secret', reason: 'is not there' }]]);
    expect(await refusal('/present-files', { filepaths: ['fine', '/etc/passwd'] })).toEqual([400, 'bad_request']);
    expect(await client.sh('test -e /mnt/user-data/outputs/fine || echo none')).toBe('none\n');
    await using other = await SessionClient.open(await host.open('storeless'));
    await other.sh('echo x > fine');
    const { status } = await other.call('POST', '/present-files', { filepaths: ['fine'] });
    expect(status).toBe(400);
    expect(await other.sh('ls /mnt/user-data/outputs')).toBe('');
  });
});
