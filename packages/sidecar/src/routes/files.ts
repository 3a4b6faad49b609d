/** Text files as the reference's clients make, show and edit them. */
import { clientSignal, fileConditions, preconditionOf, sendList } from '@boxkite/kit';
import { BoxkiteError } from '@boxkite/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { LineRange } from '../files/line-view.ts';
import { presentFiles } from '../files/present.ts';
import { rootedPath, writablePath } from '../files/rooted-path.ts';
import type { SessionFiles } from '../files/session-files.ts';
import { createFile, editFile, viewFile } from '../files/text-files.ts';
import type { SidecarRoutes } from './context.ts';
import { createBody, presentBody, replaceBody, viewBody } from './files-schemas.ts';
import { textBodyBytes } from './schema-parts.ts';

type Create = FastifyRequest<{ Body: z.output<typeof createBody> }>;
type View = FastifyRequest<{ Body: z.output<typeof viewBody> }>;
type Present = FastifyRequest<{ Body: z.output<typeof presentBody> }>;
type Replace = FastifyRequest<{ Body: z.output<typeof replaceBody> }>;

const TRUNCATED = '\n[... the rest is not shown; give view_range for other lines]';

/** Making, showing and editing. */
export const referenceFileRoutes: SidecarRoutes = (app, context) => {
  const filesOf = (request: Pick<FastifyRequest, 'raw'>): SessionFiles =>
    context.authenticated.session(request).services.files;

  app.post(
    '/file-create',
    {
      bodyLimit: textBodyBytes,
      config: { headers: fileConditions },
      schema: { summary: 'Write a text file', body: createBody },
    },
    async (request: Create, reply: FastifyReply) => {
      const path = writablePath(request.body.path);
      const expected = preconditionOf(request.headers);
      const { present, store } = filesOf(request);
      const { content } = request.body;
      const signal = clientSignal(reply.raw, context.closing);
      const { etag, size } = await createFile(present, { path, content, expected }, signal);
      store.written();
      reply.header('etag', etag);
      return { path, size, created: true, sha256: etag.slice(1, -1) };
    },
  );

  app.post(
    '/view',
    { schema: { summary: 'Show a text file or the names of a directory', body: viewBody } },
    async (request: View, reply: FastifyReply) =>
      view(request, reply, filesOf(request), clientSignal(reply.raw, context.closing)),
  );

  app.post(
    '/str-replace',
    {
      bodyLimit: 2 * textBodyBytes,
      config: { headers: fileConditions },
      schema: { summary: 'Replace text in a file', body: replaceBody },
    },
    async (request: Replace, reply: FastifyReply) => {
      const path = writablePath(request.body.path);
      const expected = preconditionOf(request.headers);
      const { old_str: oldText, new_str: newText, replace_all: all } = request.body;
      const { present, edits, store } = filesOf(request);
      const signal = clientSignal(reply.raw, context.closing);
      const edit = { oldText, newText, all: all ?? false };
      const { occurrences, etag, hint } = await editFile(present, edits, { path, edit, expected }, signal);
      if (occurrences > 0) store.written();
      reply.header('etag', etag);
      return { path, replaced: occurrences > 0, occurrences, sha256: etag.slice(1, -1), ...(hint ? { hint } : {}) };
    },
  );
};

/** A text file as it is, or the names of a directory. */
async function view(
  request: View,
  reply: FastifyReply,
  { present, redaction }: SessionFiles,
  signal: AbortSignal,
): Promise<object> {
  const path = rootedPath(request.body.path);
  const range = rangeOf(request.body.view_range ?? null);
  try {
    const { content, truncated, lines, etag } = await viewFile(present, redaction, { path, range }, signal);
    reply.header('etag', etag);
    const shown = truncated ? content + TRUNCATED : content;
    return { content: shown, lines, is_directory: false, entries: null, truncated, sha256: etag.slice(1, -1) };
  } catch (error) {
    if (!(error instanceof BoxkiteError) || error.code !== 'is_directory') throw error;
  }
  const head = { content: '', lines: 0, is_directory: true };
  return sendList({ request, reply, name: 'entries', head }, names(present.list(path, signal)));
}

/** Presenting. */
export const presentRoutes: SidecarRoutes = (app, context) => {
  app.post(
    '/present-files',
    { schema: { summary: 'Put files among the outputs and into the store', body: presentBody } },
    async (request: Present, reply: FastifyReply) => {
      const { present, store } = context.authenticated.session(request).services.files;
      return presentFiles(present, store, request.body.filepaths, clientSignal(reply.raw, context.closing));
    },
  );
};

/** What is not two numbers is as if it were not there. */
function rangeOf(numbers: readonly number[] | null): LineRange | null {
  const [first, last] = numbers ?? [];
  return numbers?.length === 2 && first !== undefined && last !== undefined ? [first, last] : null;
}

async function* names(found: AsyncIterable<{ readonly name: string }>): AsyncGenerator<string> {
  for await (const { name } of found) yield name;
}
