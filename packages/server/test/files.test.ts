import { createHash, randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { byteRange, fileInfoHeader } from '@boxkite/kit';
import { BoxkiteError, v1 } from '@boxkite/protocol';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { bodyOf, TestDaemon, until } from './harness.ts';

let daemon: TestDaemon;
let path: string;
let id: string;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  id = await daemon.sandbox();
  path = `/v1/sandboxes/${id}/files`;
});
afterAll(() => daemon.close());

const fakeFiles = () => {
  const found = daemon.substrate.find(id);
  if (found === undefined) throw new Error('the sandbox does not run');
  return found.files;
};

describe('files', () => {
  it('go up and down byte for byte, with mode and FileInfo', async () => {
    const bytes = randomBytes(5_000_000);
    const put = await daemon.call('PUT', `${path}/content?path=a.bin&mode=0600`, { body: bytes });
    expect([put.status, put.text]).toEqual([204, '']);
    const got = await daemon.call('GET', `${path}/content?path=a.bin`);
    expect(createHash('sha256').update(got.bytes).digest('hex')).toBe(createHash('sha256').update(bytes).digest('hex'));
    const info = v1.fileInfo.parse(JSON.parse(String(got.headers[v1.fileInfoHeader])));
    expect(info).toMatchObject({ path: '/workspace/a.bin', mode: 0o600, size: bytes.length });
    const head = await daemon.call('HEAD', `${path}/content?path=a.bin`);
    expect([head.status, head.headers['content-length'], head.bytes.length]).toEqual([200, '5000000', 0]);
    expect(await daemon.ok(v1.fileInfo, 200, 'GET', `${path}/stat?path=a.bin`)).toEqual(info);
    const part = await daemon.call('GET', `${path}/content?path=a.bin`, { headers: { range: 'bytes=100-199' } });
    expect([part.status, part.headers['content-range']]).toEqual([206, 'bytes 100-199/5000000']);
    expect(part.bytes.equals(bytes.subarray(100, 200))).toBe(true);
    const beyond = await daemon.refused(416, 'range_not_satisfiable', 'GET', `${path}/content?path=a.bin`, {
      headers: { range: 'bytes=5000000-' },
    });
    expect(beyond.headers['content-range']).toBe('bytes */5000000');
    const range = 'bytes=100-199';
    const resumed = { range, 'if-range': String(got.headers['last-modified']) };
    const whole = [
      await daemon.call('GET', `${path}/content?path=a.bin`, { headers: resumed }),
      await daemon.call('HEAD', `${path}/content?path=a.bin`, { headers: { range } }),
    ];
    for (const { status, headers } of whole) expect([status, headers['content-length']]).toEqual([200, '5000000']);
  });

  it.each([
    [{ 'content-encoding': 'gzip' }, 415, 'unsupported_media_type'],
    [{ 'content-type': 'Multipart/form-data; boundary=x' }, 415, 'unsupported_media_type'],
    [{ 'content-range': 'bytes 5-9/10' }, 400, 'bad_request'],
    [{ 'transfer-encoding': 'gzip, chunked' }, 501, 'unsupported'],
  ] as const)('are not written as they come with %j', async (headers, status, code) => {
    const body = 'x';
    const refused = await daemon.refused(status, code, 'PUT', `${path}/content?path=form`, { body, headers });
    expect(refused.headers['accept-encoding']).toBe(status === 415 ? 'identity' : undefined);
    await daemon.refused(404, 'file_not_found', 'GET', `${path}/stat?path=form`);
    const plain = { 'content-encoding': 'Identity', 'content-type': 'application/x-www-form-urlencoded' };
    expect((await daemon.call('PUT', `${path}/content?path=plain`, { body, headers: plain })).status).toBe(204);
  });

  it('are not those of another name where an escape is no text', async () => {
    for (const name of ['%ff', 'a%zz', '%61%ff', '100%']) {
      await daemon.refused(400, 'bad_request', 'PUT', `${path}/content?path=${name}`, { body: 'x' });
    }
    await daemon.refused(401, 'missing_credentials', 'GET', `${path}/stat?path=%ff`, { key: null });
  });

  it('are empty where they are empty', async () => {
    await daemon.call('PUT', `${path}/content?path=empty`);
    const got = await daemon.call('GET', `${path}/content?path=empty`);
    expect([got.status, got.text, got.headers['content-length']]).toEqual([200, '', '0']);
  });

  it('that are refused before they come leave their connection to the next call', async () => {
    // As a write does that looks at what is there: it asks for the first bytes meanwhile.
    const writing = vi.spyOn(fakeFiles(), 'write').mockImplementation(async (_path, data) => {
      const bytes = (data as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
      void bytes.next().then(() => bytes.return?.());
      throw new BoxkiteError('file_changed', 'it is there already');
    });
    const body = Buffer.alloc(8 * 1024 * 1024);
    const auth = `host: x\r\nauthorization: Bearer ${daemon.key}\r\n`;
    const put = `PUT ${path}/content?path=early HTTP/1.1\r\n${auth}content-length: ${body.length}\r\n\r\n`;
    const socket = connect(daemon.socket);
    const answers: string[] = [];
    let ended = false;
    socket.on('data', (bytes) => {
      for (const [line] of bytes.toString().matchAll(/HTTP\/1.1 \d+/g)) answers.push(line);
    });
    socket
      .on('error', () => undefined)
      .on('close', () => {
        ended = true;
      });
    try {
      for (let n = 1; n <= 4; n += 1) {
        socket.write(put);
        await until(() => answers.length === n || ended);
        socket.write(body);
      }
      expect([answers, ended]).toEqual([Array.from({ length: 4 }, () => 'HTTP/1.1 412'), false]);
    } finally {
      socket.destroy();
      writing.mockRestore();
    }
  });

  it('that are refused half-way are answered all the same', async () => {
    const writing = vi.spyOn(fakeFiles(), 'write').mockImplementation(async (_path, data) => {
      for await (const _ of data as AsyncIterable<Uint8Array>) throw new BoxkiteError('no_space', 'it is full');
    });
    try {
      const body = Buffer.alloc(8 * 1024 * 1024);
      for (let n = 0; n < 10; n += 1)
        await daemon.refused(507, 'no_space', 'PUT', `${path}/content?path=long`, { body });
    } finally {
      writing.mockRestore();
    }
  });

  it('are listed however many they are, whole and by pages', async () => {
    const names = Array.from({ length: 5000 }, (_, index) => `n${(index * 7919) % 5000}`);
    const { files } = fakeFiles();
    const one = { data: Buffer.alloc(0), mode: 0o644 };
    for (const name of names) files.set(`/workspace/many/${name}`, one);
    try {
      const whole = await daemon.ok(v1.fileList, 200, 'POST', `${path}/ls`, { body: { path: 'many' } });
      expect(whole.entries.map(({ name }) => name)).toEqual(names);
      expect(whole.next_cursor).toBe(null);
      const paged: string[] = [];
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const body = { path: 'many', limit: 700, cursor };
        const page: v1.FileList = await daemon.ok(v1.fileList, 200, 'POST', `${path}/ls`, { body });
        paged.push(...page.entries.map(({ name }) => name));
        cursor = page.next_cursor;
      }
      expect(paged).toEqual(names.toSorted());
    } finally {
      for (const name of names) files.delete(`/workspace/many/${name}`);
    }
  });

  it('are listed as they are read, no faster than the client takes them', async () => {
    await daemon.call('PUT', `${path}/content?path=one`);
    const info = await daemon.ok(v1.fileInfo, 200, 'GET', `${path}/stat?path=one`);
    let read = 0;
    const listing = vi.spyOn(fakeFiles(), 'list').mockImplementation(async function* () {
      for (; ; read += 1) {
        // As a real one, which waits for its agent.
        if (read % 100 === 0) await setImmediate();
        yield { ...info, name: 'x'.repeat(255) };
      }
    });
    const socket = connect(daemon.socket);
    try {
      const body = JSON.stringify({ path: 'many' });
      socket.pause();
      socket.write(
        `POST ${path}/ls HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${daemon.key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      await until(() => read > 500);
      let before = -1;
      await until(async () => {
        const same = before === read;
        before = read;
        await new Promise((resolve) => setTimeout(resolve, 100));
        return same;
      });
      expect(read).toBeLessThan(50_000);
    } finally {
      socket.destroy();
      listing.mockRestore();
    }
  });

  it('are written over only where they are what was read, as bytes and as text', async () => {
    const tag = (text: string) => `"${createHash('sha256').update(text).digest('hex')}"`;
    const now = async () => (await daemon.call('GET', `${path}/content?path=read.txt`)).text;
    const ways = [
      (content: string) => ['PUT', `${path}/content?path=read.txt`, content] as const,
      (content: string) => ['POST', path, { path: 'read.txt', content }] as const,
    ];
    for (const way of ways) {
      await daemon.call('PUT', `${path}/content?path=read.txt`, { body: 'first' });
      const refused = async (status: number, code: string, headers: Record<string, string>) => {
        const [method, url, body] = way('lost');
        await daemon.refused(status, code, method, url, { body, headers });
        expect(await now()).toBe('first');
      };
      await refused(412, 'file_changed', { 'if-match': tag('other') });
      await refused(412, 'file_changed', { 'if-none-match': '*' });
      for (const wrong of ['*', `W/${tag('first')}`, `${tag('first')}, ${tag('other')}`, '']) {
        await refused(422, 'invalid_request', { 'if-match': wrong });
      }
      await refused(422, 'invalid_request', { 'if-match': tag('first'), 'if-none-match': '*' });
      const [method, url, body] = way('second');
      const written = await daemon.call(method, url, { body, headers: { 'if-match': tag('first') } });
      expect([written.status < 300, await now()]).toEqual([true, 'second']);
    }
  });

  it.each([
    ['DELETE', '?path=kept.txt', undefined],
    ['POST', '/move', { from: 'kept.txt', to: 'moved.txt' }],
    ['POST', '/mkdir', { path: 'made' }],
    ['PUT', '/archive?path=.', undefined],
  ] as const)('are not changed by %s %s under a condition, which it does not look at', async (method, rest, body) => {
    await daemon.call('PUT', `${path}/content?path=kept.txt`, { body: 'kept' });
    for (const name of ['if-match', 'if-none-match']) {
      const headers = { [name]: '*' };
      await daemon.refused(422, 'invalid_request', method, `${path}${rest}`, { body, headers });
      expect((await daemon.call(method, `${path}${rest}`, { body, headers, key: null })).status).toBe(401);
    }
    expect((await daemon.call('GET', `${path}/content?path=kept.txt`)).text).toBe('kept');
  });

  it('are written as text, listed, moved and removed', async () => {
    const body = { path: 'dir/é.txt', content: 'héllo' };
    expect(await daemon.ok(v1.createdFile, 200, 'POST', path, { body })).toEqual({
      path: body.path,
      size: 6,
      created: true,
    });
    expect(await daemon.ok(v1.createdFile, 200, 'POST', path, { body })).toMatchObject({ created: false });
    const header = (await daemon.call('GET', `${path}/content?path=${encodeURIComponent(body.path)}`)).headers;
    expect(bodyOf(String(header[v1.fileInfoHeader])).name).toBe('é.txt');
    for (const name of ['b', 'a', 'c']) await daemon.call('PUT', `${path}/content?path=dir/${name}`, { body: name });
    const whole = await daemon.ok(v1.fileList, 200, 'POST', `${path}/ls`, { body: { path: 'dir' } });
    expect(whole.next_cursor).toBeNull();
    expect(whole.entries).toHaveLength(4);
    expect(whole.entries[0]).toMatchObject({ is_dir: false, modified_at: '2023-11-14T22:13:20.000Z' });
    const first = await daemon.ok(v1.fileList, 200, 'POST', `${path}/ls`, { body: { path: 'dir', limit: 3 } });
    expect([first.entries.map(({ name }) => name), first.next_cursor]).toEqual([['a', 'b', 'c'], 'c']);
    const rest = await daemon.ok(v1.fileList, 200, 'POST', `${path}/ls`, {
      body: { path: 'dir', limit: 3, cursor: first.next_cursor },
    });
    expect([rest.entries.map(({ name }) => name), rest.next_cursor]).toEqual([['é.txt'], null]);
    expect((await daemon.call('POST', `${path}/move`, { body: { from: 'dir/a', to: 'dir/z' } })).status).toBe(204);
    expect((await daemon.call('DELETE', `${path}?path=dir/z`)).status).toBe(204);
    expect((await daemon.call('POST', `${path}/mkdir`, { body: { path: 'new' } })).status).toBe(204);
    await daemon.refused(404, 'file_not_found', 'DELETE', `${path}?path=dir/z`);
    await daemon.refused(404, 'file_not_found', 'GET', `${path}/content?path=none`);
    await daemon.refused(409, 'is_directory', 'GET', `${path}/content?path=dir`);
    await daemon.refused(422, 'invalid_request', 'GET', `${path}/content`);
    await daemon.refused(422, 'invalid_request', 'PUT', `${path}/content?path=a&mode=9`);
  });

  it('go as archives', async () => {
    expect((await daemon.call('GET', `${path}/archive?path=dir`)).text).toBe('tar of /workspace/dir');
    expect((await daemon.call('PUT', `${path}/archive?path=dir`, { body: 'tar bytes' })).status).toBe(204);
    expect((await daemon.call('GET', `${path}/content?path=dir/unpacked.tar`)).text).toBe('tar bytes');
  });

  it('of a cut upload are not there', async () => {
    const socket = connect(daemon.socket);
    socket.write(
      `PUT ${path}/content?path=cut HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${daemon.key}\r\ncontent-length: 1000\r\n\r\nhalf`,
    );
    await new Promise((resolve) => setTimeout(resolve, 50));
    socket.destroy();
    await new Promise((resolve) => setTimeout(resolve, 50));
    await daemon.refused(404, 'file_not_found', 'GET', `${path}/stat?path=cut`);
  });

  it('are read no faster than their reader', async () => {
    await daemon.call('PUT', `${path}/content?path=big`, { body: Buffer.alloc(64 * 1024 * 1024) });
    const files = fakeFiles();
    files.pulled = 0;
    const request = daemon.begin('GET', `${path}/content?path=big`, {}, (response) => {
      response.pause();
      response.on('error', () => undefined);
    });
    request.on('error', () => undefined);
    await until(() => files.pulled > 0);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(files.pulled).toBeLessThan(8 * 1024 * 1024);
    request.destroy();
    await until(() => daemon.logs.length >= 0);
  });
});

describe('ranges', () => {
  it.each([
    [undefined, null],
    ['bytes=0-', { offset: 0, length: 10 }],
    ['bytes=2-4', { offset: 2, length: 3 }],
    ['bytes=2-400', { offset: 2, length: 8 }],
    ['bytes=-3', { offset: 7, length: 3 }],
    ['bytes=-30', { offset: 0, length: 10 }],
    ['bytes=4-2', null],
    ['bytes=-', null],
    ['bytes=0-1,3-4', null],
    ['Bytes=4-', { offset: 4, length: 6 }],
    [`bytes=4-${'9'.repeat(30)}`, { offset: 4, length: 6 }],
    ['lines=0-1', null],
  ])('%s', (header, expected) => {
    expect(byteRange(header, 10)).toEqual(expected);
  });

  it('that begin at the end are refused', () => {
    for (const header of ['bytes=10-', 'bytes=-0', `bytes=${'9'.repeat(30)}-`])
      expect(() => byteRange(header, 10)).toThrow('10 bytes');
  });
});

it('a name of a file can not break out of its header', () => {
  const info = {
    name: 'a\r\nx: y',
    path: '/a\r\nx: y\u{1f600}',
    type: 'file' as const,
    size: 1,
    mode: 0,
    modified_ms: 0,
  };
  const header = fileInfoHeader(info);
  expect(header).toMatch(/^[\x20-\x7e]+$/);
  expect(JSON.parse(header)).toEqual(info);
});
