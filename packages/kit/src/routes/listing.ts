/** Directories of any size, in memory that does not grow with them. */
import type { FileInfo } from '@boxkite/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { sendList } from '../http/json-list.ts';
import { listedFile } from './file-json.ts';

/** Entries that are kept beside those of a page before the rest is sorted out. */
const BESIDE = 1000;
/** Of a page whose size was not asked for. */
const DEFAULT_PAGE = 10_000;

type List = ReturnType<typeof answer>;

function answer(found: readonly FileInfo[], next_cursor: string | null) {
  return { entries: found.map(listedFile), next_cursor };
}

/** A page, by code units: it begins after the name that the one before ended with, whatever came or went between. */
export async function listPage(
  all: AsyncIterable<FileInfo>,
  { limit = DEFAULT_PAGE, cursor }: { readonly limit?: number | undefined; readonly cursor: string | null },
): Promise<List> {
  let first: FileInfo[] = [];
  for await (const info of all) {
    if (cursor !== null && info.name <= cursor) continue;
    first.push(info);
    if (first.length > 2 * limit + BESIDE) first = firstOf(first, limit + 1);
  }
  const found = firstOf(first, limit + 1);
  const page = found.slice(0, limit);
  return answer(page, found.length > limit ? (page.at(-1)?.name ?? null) : null);
}

function firstOf(found: FileInfo[], count: number): FileInfo[] {
  return found.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)).slice(0, count);
}

/** All of it. Errors before the first bytes are those of reading; later ones cut the answer off. */
export function listAll(all: AsyncIterable<FileInfo>, request: FastifyRequest, reply: FastifyReply): Promise<object> {
  return sendList({ request, reply, name: 'entries', head: { next_cursor: null } }, shown(all));
}

async function* shown(all: AsyncIterable<FileInfo>): AsyncGenerator<object, void, undefined> {
  for await (const info of all) yield listedFile(info);
}
