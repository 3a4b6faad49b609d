import { createHash } from 'node:crypto';
import type { FileInfo, FilesPort, WriteOptions } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';

/** Files in memory: a write is whole or nothing. */
export class FakeFiles implements FilesPort {
  readonly files = new Map<string, { data: Uint8Array; mode: number }>();
  /** Bytes that were read and not yet asked for again: shows whether back-pressure works. */
  pulled = 0;

  async stat(path: string): Promise<FileInfo> {
    const full = absolute(path);
    const file = this.files.get(full);
    if (file !== undefined) return info(full, file.data.length, file.mode);
    if (full === '/workspace' || [...this.files.keys()].some((name) => name.startsWith(`${full}/`))) {
      return { ...info(full, 0, 0o755), type: 'directory' };
    }
    throw new BoxkiteError('file_not_found', 'there is no such file');
  }

  async *read(path: string, range: { offset?: number; length?: number } = {}, signal?: AbortSignal) {
    const file = this.files.get(absolute(path));
    if (file === undefined) throw new BoxkiteError('file_not_found', 'there is no such file');
    const start = range.offset ?? 0;
    const end = Math.min(file.data.length, start + (range.length ?? file.data.length));
    for (let at = start; at < end; at += 65_536) {
      if (signal?.aborted === true) throw new BoxkiteError('aborted', 'the call was cancelled');
      const chunk = file.data.subarray(at, Math.min(end, at + 65_536));
      this.pulled += chunk.length;
      yield chunk;
    }
  }

  async write(
    path: string,
    data: Uint8Array | AsyncIterable<Uint8Array>,
    options: WriteOptions = {},
    signal?: AbortSignal,
  ): Promise<void> {
    const whole = await gather(data);
    if (signal?.aborted === true) throw new BoxkiteError('aborted', 'the call was cancelled');
    const { expected } = options;
    const there = this.files.get(absolute(path));
    const digest = there === undefined ? 'nothing' : createHash('sha256').update(there.data).digest('hex');
    if (expected !== undefined && digest !== (expected === 'nothing' ? 'nothing' : expected.sha256)) {
      throw new BoxkiteError('file_changed', 'the file is not what it was');
    }
    this.files.set(absolute(path), { data: whole, mode: options.mode ?? 0o644 });
  }

  async *list(path: string): AsyncGenerator<FileInfo> {
    const base = `${absolute(path)}/`;
    for (const [name, file] of this.files) {
      const rest = name.startsWith(base) ? name.slice(base.length) : '/';
      if (!rest.includes('/')) yield info(name, file.data.length, file.mode);
    }
  }

  readonly directories: string[] = [];

  async mkdir(path: string): Promise<void> {
    this.directories.push(absolute(path));
  }

  async remove(path: string): Promise<void> {
    if (!this.files.delete(absolute(path))) throw new BoxkiteError('file_not_found', 'there is no such file');
  }

  async move(from: string, to: string): Promise<void> {
    const file = this.files.get(absolute(from));
    if (file === undefined) throw new BoxkiteError('file_not_found', 'there is no such file');
    this.files.delete(absolute(from));
    this.files.set(absolute(to), file);
  }

  async unpack(path: string, tar: AsyncIterable<Uint8Array>): Promise<void> {
    this.files.set(`${absolute(path)}/unpacked.tar`, { data: await gather(tar), mode: 0o644 });
  }

  async *pack(path: string): AsyncGenerator<Uint8Array> {
    yield Buffer.from(`tar of ${absolute(path)}`);
  }
}

async function gather(data: Uint8Array | AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  if (data instanceof Uint8Array) return data;
  const parts: Uint8Array[] = [];
  for await (const part of data) parts.push(part);
  return Buffer.concat(parts);
}

function absolute(path: string): string {
  return path.startsWith('/') ? path : `/workspace/${path}`;
}

function info(path: string, size: number, mode: number): FileInfo {
  return {
    name: path.slice(path.lastIndexOf('/') + 1),
    path,
    type: 'file',
    size,
    mode,
    modified_ms: 1_700_000_000_000,
  };
}
