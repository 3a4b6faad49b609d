/** `FilesPort` over `/v1`. */
import type { FileInfo, FilePrecondition, FilesPort, PackEnd, WriteOptions } from '@boxkite/protocol';
import { BoxkiteWireError, expectedSha256, v1 } from '@boxkite/protocol';
import { listedFile } from './answers.ts';
import type { HttpClient, Repeat } from './client.ts';
import { sandboxPath, withQuery } from './paths.ts';

const PAGE = 1000;
const TAR = 'application/x-tar';

/** Files of one sandbox of a server. */
export class HttpFiles implements FilesPort {
  readonly #client: HttpClient;
  readonly #sandbox: string;

  constructor(client: HttpClient, sandbox: string) {
    this.#client = client;
    this.#sandbox = sandbox;
  }

  stat(path: string, signal?: AbortSignal, options: { readonly follow?: boolean | undefined } = {}): Promise<FileInfo> {
    const query = options.follow === true ? { path, follow: 'true' } : { path };
    const call = { method: 'GET', path: this.#path('/stat', query), repeat: 'repeatable', signal } as const;
    return this.#client.read(call, (value) => {
      const checked = v1.fileInfo.safeParse(value);
      if (checked.success) return listedFile(checked.data);
      throw this.#client.unexpected('describes no file', checked.error);
    });
  }

  async *read(
    path: string,
    range: { readonly offset?: number; readonly length?: number } = {},
    signal?: AbortSignal,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const { offset = 0, length } = range;
    const headers = rangeHeader(offset, length);
    const call = { method: 'GET', path: this.#path('/content', { path }), repeat: 'repeatable', signal } as const;
    try {
      const response = await this.#client.open({ ...call, headers });
      if (length === 0) response.discard();
      else yield* response.body;
    } catch (error) {
      // What begins at or behind the end of a file is empty.
      if (error instanceof BoxkiteWireError && error.code === 'range_not_satisfiable') return;
      throw this.#client.explain(error, signal);
    }
  }

  async write(
    path: string,
    data: Uint8Array | AsyncIterable<Uint8Array>,
    options: WriteOptions = {},
    signal?: AbortSignal,
  ): Promise<void> {
    const { mode, parents, expected } = options;
    const query = { path, mode: mode === undefined ? undefined : mode.toString(8).padStart(4, '0'), parents };
    await this.#client.done({
      method: 'PUT',
      path: this.#path('/content', query),
      body: data,
      ...(expected === undefined ? { repeat: 'repeatable' } : { repeat: 'once', headers: precondition(expected) }),
      signal,
    });
  }

  async *list(path: string, signal?: AbortSignal): AsyncGenerator<FileInfo, void, undefined> {
    const where = sandboxPath(this.#sandbox, '/files/ls');
    let cursor: string | null = null;
    do {
      const json: unknown = { path, limit: PAGE, cursor };
      const call = { method: 'POST', path: where, json, repeat: 'repeatable', signal } as const;
      const page: v1.FileList = await this.#client.json(call, v1.fileList);
      for (const entry of page.entries) yield listedFile(entry);
      cursor = page.next_cursor;
    } while (cursor !== null);
  }

  mkdir(path: string, signal?: AbortSignal): Promise<void> {
    return this.#post('/mkdir', { path }, 'repeatable', signal);
  }

  async remove(path: string, signal?: AbortSignal): Promise<void> {
    let repeated = false;
    const onRepeat = (): void => {
      repeated = true;
    };
    const where = this.#path('', { path });
    try {
      await this.#client.done({ method: 'DELETE', path: where, repeat: 'repeatable', onRepeat, signal });
    } catch (error) {
      // The call whose answer was lost has removed it.
      if (!repeated || !(error instanceof BoxkiteWireError) || error.code !== 'file_not_found') throw error;
    }
  }

  move(from: string, to: string, signal?: AbortSignal): Promise<void> {
    return this.#post('/move', { from, to }, 'once', signal);
  }

  unpack(path: string, tar: AsyncIterable<Uint8Array>, signal?: AbortSignal): Promise<void> {
    const where = this.#path('/archive', { path });
    return this.#client.done({ method: 'PUT', path: where, body: tar, type: TAR, repeat: 'once', signal });
  }

  async *pack(
    path: string,
    signal?: AbortSignal,
    onEnd?: (end: PackEnd) => void,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const call = { method: 'GET', path: this.#path('/archive', { path }), repeat: 'repeatable', signal } as const;
    try {
      const answer = await this.#client.open(call);
      yield* answer.body;
      const end = answer.trailer(v1.packEndTrailer);
      if (end !== null) onEnd?.(this.#client.parsed(end, v1.packEnd));
    } catch (error) {
      throw this.#client.explain(error, signal);
    }
  }

  #path(rest: string, query: Readonly<Record<string, string | boolean | undefined>>): string {
    return withQuery(sandboxPath(this.#sandbox, `/files${rest}`), query);
  }

  #post(rest: string, json: unknown, repeat: Repeat, signal: AbortSignal | undefined): Promise<void> {
    const path = sandboxPath(this.#sandbox, `/files${rest}`);
    return this.#client.done({ method: 'POST', path, json, repeat, signal });
  }
}

function precondition(expected: FilePrecondition): Record<string, string> {
  const sha256 = expectedSha256(expected);
  return sha256 === null ? { 'if-none-match': '*' } : { 'if-match': `"${sha256}"` };
}

function rangeHeader(offset: number, length: number | undefined): Record<string, string> {
  if (offset === 0 && (length === undefined || length === 0)) return {};
  if (length === 0) return { range: `bytes=${offset}-` };
  return { range: `bytes=${offset}-${length === undefined ? '' : offset + length - 1}` };
}
