import { createHash, randomBytes } from 'node:crypto';
import type { FilePrecondition, PackEnd, SandboxPort, SandboxProvider } from '@boxkite/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bytesOf, codeOf, itemsOf, outcomeOf, shIn } from './subject.ts';

async function* inParts(data: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < data.length; at += size) yield data.subarray(at, at + size);
}

/** Files by the file agent. */
export function filesContract(provider: () => SandboxProvider): void {
  describe('files', () => {
    let sandbox: SandboxPort;
    beforeAll(async () => {
      sandbox = await provider().create({ workspace_mb: 64 });
    });
    afterAll(async () => {
      await sandbox.destroy();
    });

    it.each([0, 1, 65_535, 65_536, 65_537, 3_000_001])('keeps %i bytes, written whole and in parts', async (size) => {
      const data = randomBytes(size);
      await sandbox.files.write('whole.bin', data);
      await sandbox.files.write('parts.bin', inParts(data, 10_007));
      expect((await bytesOf(sandbox.files.read('whole.bin'))).equals(data)).toBe(true);
      expect((await bytesOf(sandbox.files.read('parts.bin'))).equals(data)).toBe(true);
      const { stdout } = await shIn(sandbox, 'cmp whole.bin parts.bin && stat -c %s whole.bin');
      expect(stdout.toString()).toBe(`${size}\n`);
    });

    it('reads ranges, and nothing beyond the end', async () => {
      await sandbox.files.write('range.txt', Buffer.from('0123456789'));
      const read = async (offset: number, length?: number): Promise<string> =>
        (
          await bytesOf(sandbox.files.read('range.txt', length === undefined ? { offset } : { offset, length }))
        ).toString();
      expect([await read(0, 3), await read(7), await read(3, 4), await read(8, 100), await read(10)]).toEqual([
        '012',
        '789',
        '3456',
        '89',
        '',
      ]);
    });

    it.each(['with space', 'ünïcödé ☃', 'quote\'"', 'new\nline', '-dash', '%2F', '#?&=', 'x'.repeat(255)])(
      'takes the name %j',
      async (name) => {
        await sandbox.files.write(`names/${name}`, Buffer.from(name));
        expect((await sandbox.files.stat(`names/${name}`)).name).toBe(name);
        expect((await bytesOf(sandbox.files.read(`names/${name}`))).toString()).toBe(name);
        expect((await itemsOf(sandbox.files.list('names'))).map((entry) => entry.name)).toContain(name);
        await sandbox.files.remove(`names/${name}`);
      },
    );

    it('replaces a file at once: a reader sees the old or the new one', async () => {
      const [old, fresh] = [Buffer.alloc(200_000, 'a'), Buffer.alloc(200_000, 'b')];
      await sandbox.files.write('swap', old);
      const writing = (async (): Promise<void> => {
        for (let round = 0; round < 10; round += 1) await sandbox.files.write('swap', round % 2 === 0 ? fresh : old);
      })();
      for (let round = 0; round < 10; round += 1) {
        const seen = await bytesOf(sandbox.files.read('swap'));
        expect([old.equals(seen), fresh.equals(seen)]).toContain(true);
      }
      await writing;
    });

    it('writes over what its caller has read, and over nothing else', async () => {
      const sha = (data: Uint8Array): string => createHash('sha256').update(data).digest('hex');
      const write = async (data: Uint8Array, expected: FilePrecondition) =>
        await outcomeOf(sandbox.files.write('guarded', data, { expected }));
      // Those that go in one piece and those that go in many.
      for (const size of [10, 300_000]) {
        const [first, second, other] = ['1', '2', '3'].map((text) => Buffer.alloc(size, text)) as [
          Buffer,
          Buffer,
          Buffer,
        ];
        expect(await write(first, { sha256: sha(first) })).toBe('file_changed');
        expect(await write(first, 'nothing')).toBe('done');
        expect(await write(other, 'nothing')).toBe('file_changed');
        expect(await write(second, { sha256: sha(first) })).toBe('done');
        expect(await write(other, { sha256: sha(first) })).toBe('file_changed');
        expect((await bytesOf(sandbox.files.read('guarded'))).equals(second)).toBe(true);
        await sandbox.files.remove('guarded');
      }
      expect((await shIn(sandbox, 'ls -A | grep -c "^.boxkite"')).stdout.toString()).toBe('0\n');
    });

    it('writes nothing where what is expected is no answer, or what it is in is missing', async () => {
      const data = Buffer.from('x');
      const sha256 = createHash('sha256').update(data).digest('hex');
      const write = async (path: string, expected: unknown) =>
        await outcomeOf(sandbox.files.write(path, data, { expected: expected as FilePrecondition }));
      await sandbox.files.write('typed', data);
      for (const wrong of [
        'Nothing',
        '',
        null,
        {},
        { sha256: '' },
        { sha256: `${sha256}00` },
        { sha256: 'z'.repeat(64) },
      ]) {
        expect(await write('typed', wrong)).toBe('invalid_request');
        expect(await write('untyped', wrong)).toBe('invalid_request');
      }
      expect(await write('typed', { sha256: sha256.toUpperCase() })).toBe('done');
      expect(await write('untyped', { sha256 })).toBe('file_changed');
      expect(await write('no/such/parent', { sha256 })).toBe('file_changed');
      expect((await shIn(sandbox, 'ls')).stdout.toString()).not.toMatch(/untyped|^no$/m);
    });

    it('lets one of many win who have read the same', async () => {
      for (let round = 0; round < 10; round += 1) {
        const read = Buffer.from(`round ${round}`);
        await sandbox.files.write('counter', read);
        const expected = { sha256: createHash('sha256').update(read).digest('hex') };
        const writers = Array.from({ length: 8 }, (_, at) => Buffer.from(`round ${round} by ${at}`));
        const codes = await Promise.all(
          writers.map((data) => outcomeOf(sandbox.files.write('counter', data, { expected }))),
        );
        const winners = writers.filter((_, at) => codes[at] === 'done');
        expect(codes.filter((code) => code === 'file_changed')).toHaveLength(7);
        expect(await bytesOf(sandbox.files.read('counter'))).toEqual(winners[0]);
      }
    });

    it('leaves the old file where a write is cut off', async () => {
      await sandbox.files.write('kept.txt', Buffer.from('old'));
      const broken = async function* (): AsyncGenerator<Uint8Array> {
        yield Buffer.alloc(100_000, 'n');
        throw new TypeError('the source broke');
      };
      await expect(sandbox.files.write('kept.txt', broken())).rejects.toThrow();
      expect((await bytesOf(sandbox.files.read('kept.txt'))).toString()).toBe('old');
      expect((await shIn(sandbox, 'ls -A | grep -v "^[a-z]" | wc -l')).stdout.toString()).toBe('0\n');
    });

    it('lists, moves, makes and removes', async () => {
      await sandbox.files.mkdir('tree/a/b');
      await sandbox.files.write('tree/a/one', Buffer.from('1'), { mode: 0o755 });
      await shIn(sandbox, 'ln -s one tree/a/link');
      const entries = await itemsOf(sandbox.files.list('tree/a'));
      expect(entries.map(({ name, type }) => `${name} ${type}`).sort()).toEqual([
        'b directory',
        'link symlink',
        'one file',
      ]);
      expect(entries.find(({ name }) => name === 'one')).toMatchObject({
        size: 1,
        mode: 0o755,
        path: '/workspace/tree/a/one',
      });
      expect(entries.find(({ name }) => name === 'link')?.target).toBe('one');
      await sandbox.files.move('tree/a/one', 'tree/two');
      await expect(sandbox.files.stat('tree/a/one')).rejects.toMatchObject({ code: 'file_not_found' });
      expect((await bytesOf(sandbox.files.read('tree/two'))).toString()).toBe('1');
      await sandbox.files.remove('tree');
      await expect(itemsOf(sandbox.files.list('tree'))).rejects.toMatchObject({ code: 'file_not_found' });
    });

    it('packs and unpacks a tree with its modes and links', async () => {
      await shIn(sandbox, 'mkdir -p pk/d && echo one > pk/d/f && chmod 755 pk/d/f && ln -s d/f pk/l');
      await sandbox.files.unpack('pk2', sandbox.files.pack('pk'));
      const { stdout } = await shIn(sandbox, 'cat pk2/d/f; readlink pk2/l; stat -c %a pk2/d/f');
      expect(stdout.toString()).toBe('one\nd/f\n755\n');
    });

    it('tells what the archive of a tree lacks', async () => {
      await shIn(
        sandbox,
        'mkdir -p lack/shut && cd lack && echo a > a && touch shut/in secret && mkfifo pipe && chmod 0 secret shut',
      );
      const ends: PackEnd[] = [];
      for await (const _ of sandbox.files.pack('lack', undefined, (end) => ends.push(end)));
      for await (const _ of sandbox.files.pack('pk', undefined, (end) => ends.push(end)));
      expect(ends).toEqual([
        { omitted: 3, cut: 0 },
        { omitted: 0, cut: 0 },
      ]);
    });

    it.each([
      ['file_not_found', 'none', (path: string) => bytesOf(sandbox.files.read(path))],
      ['is_directory', '/workspace', (path: string) => bytesOf(sandbox.files.read(path))],
      ['outside_roots', '/etc/passwd', (path: string) => bytesOf(sandbox.files.read(path))],
      ['outside_roots', '../etc/passwd', (path: string) => sandbox.files.write(path, Buffer.from('x'))],
      ['read_only', '/mnt/skills/x', (path: string) => sandbox.files.write(path, Buffer.from('x'))],
      ['name_too_long', 'y'.repeat(256), (path: string) => sandbox.files.write(path, Buffer.from('x'))],
      ['invalid_request', 'a\0b', (path: string) => sandbox.files.stat(path)],
    ] as const)('answers %s for %j', async (code, path, call) => {
      await expect(call(path)).rejects.toMatchObject({ code });
    });

    it('resolves no link that leads elsewhere, and opens no pipe or device', async () => {
      await shIn(sandbox, 'ln -s /etc/passwd out; ln -s /proc/self/environ env; mkfifo fifo; ln -s loop loop');
      for (const name of ['out', 'env']) {
        expect(['file_not_found', 'outside_roots']).toContain(await codeOf(bytesOf(sandbox.files.read(name))));
      }
      await expect(bytesOf(sandbox.files.read('fifo'))).rejects.toMatchObject({ code: 'not_a_file' });
      await expect(bytesOf(sandbox.files.read('loop'))).rejects.toMatchObject({ code: 'too_many_links' });
    });

    it('reads through a link within the roots, whole and in part', async () => {
      await sandbox.files.write('target', Buffer.from('what the link leads to'));
      await shIn(sandbox, 'ln -s target to-target; ln -s /workspace/target /tmp/to-target');
      for (const name of ['to-target', '/tmp/to-target']) {
        expect((await bytesOf(sandbox.files.read(name))).toString()).toBe('what the link leads to');
        expect((await bytesOf(sandbox.files.read(name, { offset: 9, length: 8 }))).toString()).toBe('link lea');
        expect((await sandbox.files.stat(name)).type).toBe('symlink');
        expect(await sandbox.files.stat(name, undefined, { follow: true })).toMatchObject({ type: 'file', size: 22 });
      }
    });

    it('says when there is no space, harms nothing else and goes on', async () => {
      const small = await provider().create({ workspace_mb: 4 });
      try {
        await expect(small.files.write('big', Buffer.alloc(8 * 1024 * 1024))).rejects.toMatchObject({
          code: 'no_space',
        });
        await small.files.write('small', Buffer.from('fits'));
        expect((await shIn(small, 'ls; head -c 9000000 /dev/zero > more; echo $?')).stdout.toString()).toBe(
          'small\n1\n',
        );
        await sandbox.files.write('other', Buffer.alloc(1_000_000));
      } finally {
        await small.destroy();
      }
    });

    it('cancels a call by its signal', async () => {
      await sandbox.files.write('long', Buffer.alloc(5_000_000));
      const abort = new AbortController();
      const reading = (async (): Promise<void> => {
        for await (const _part of sandbox.files.read('long', {}, abort.signal)) abort.abort();
      })();
      await expect(reading).rejects.toMatchObject({ code: 'aborted' });
      await expect(sandbox.files.stat('long', AbortSignal.abort())).rejects.toMatchObject({ code: 'aborted' });
    });
  });
}
