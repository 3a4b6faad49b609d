/** `FilesPort` over a tree in memory. It says what a test puts in, however a real file agent would refuse it. */
import { posix } from 'node:path';
import { packTree } from '@boxkite/local';
import type { FileInfo, FilesPort, PackEnd, WriteOptions } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';

export type Node =
  | { readonly type: 'file'; readonly data: Buffer; readonly mode: number }
  | { readonly type: 'directory' | 'other'; readonly mode: number }
  | { readonly type: 'symlink'; readonly target: string; readonly mode: number };

export class MemoryFiles implements FilesPort {
  readonly tree = new Map<string, Node>([['/workspace', { type: 'directory', mode: 0o755 }]]);
  /** Paths at which a read fails half-way. */
  readonly broken = new Set<string>();
  readonly unpacked: { path: string; bytes: number }[] = [];

  file(path: string, data: string | Buffer, mode = 0o644): void {
    this.tree.set(path, { type: 'file', data: Buffer.from(data), mode });
  }

  directory(path: string, mode = 0o755): void {
    this.tree.set(path, { type: 'directory', mode });
  }

  link(path: string, target: string): void {
    this.tree.set(path, { type: 'symlink', target, mode: 0o777 });
  }

  #info(path: string, node: Node): FileInfo {
    return {
      name: posix.basename(path),
      path,
      type: node.type,
      size: node.type === 'file' ? node.data.length : 0,
      mode: node.mode,
      modified_ms: 0,
      ...(node.type === 'symlink' ? { target: node.target } : {}),
    };
  }

  async stat(path: string): Promise<FileInfo> {
    const node = this.tree.get(path);
    if (node === undefined) throw new BoxkiteError('file_not_found', `${path} is not there`);
    return this.#info(path, node);
  }

  async *read(path: string): AsyncGenerator<Uint8Array, void, undefined> {
    const node = this.tree.get(path);
    if (node?.type !== 'file') throw new BoxkiteError('file_not_found', `${path} is not there`);
    yield node.data.subarray(0, node.data.length / 2);
    if (this.broken.has(path)) throw new BoxkiteError('connection_lost', 'cut');
    yield node.data.subarray(node.data.length / 2);
  }

  async write(path: string, data: Uint8Array | AsyncIterable<Uint8Array>, options?: WriteOptions): Promise<void> {
    const parts: Uint8Array[] = [];
    if (data instanceof Uint8Array) parts.push(data);
    else for await (const part of data) parts.push(part);
    this.file(path, Buffer.concat(parts), options?.mode);
  }

  async *list(path: string): AsyncGenerator<FileInfo, void, undefined> {
    for (const [each, node] of this.tree) {
      if (each !== path && each.slice(0, each.lastIndexOf('/')) === path)
        yield { ...this.#info(each, node), name: each.slice(path.length + 1) };
    }
  }

  async mkdir(path: string): Promise<void> {
    this.directory(path);
  }

  async remove(path: string): Promise<void> {
    this.tree.delete(path);
  }

  async move(): Promise<void> {
    throw new Error('not used');
  }

  async unpack(path: string, tar: AsyncIterable<Uint8Array>): Promise<void> {
    let bytes = 0;
    for await (const part of tar) bytes += part.length;
    this.unpacked.push({ path, bytes });
  }

  /** A directory of this machine, which stands for any of the sandbox. */
  packed = '';

  lacks: PackEnd = { omitted: 0, cut: 0 };

  async *pack(_path: string, _signal?: AbortSignal, onEnd?: (end: PackEnd) => void): AsyncGenerator<Uint8Array> {
    yield* packTree(this.packed);
    onEnd?.(this.lacks);
  }
}
