/** Reading and writing text files of the present use, as the reference's clients do. */
import { createHash } from 'node:crypto';
import { etagOf } from '@boxkite/kit';
import type { FilePrecondition } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { FileAgentError, fileChanged, type RunnerFiles, TextBytes, writeExpecting } from '@boxkite/runner-client';
import type { Redaction } from '../session/redaction.ts';
import { applyEdit, type Edit, whyNoMatch } from './edit.ts';
import type { EditTurns } from './edit-turns.ts';
import { countLines, type LineRange, LineView } from './line-view.ts';

/** Files that are shown, in bytes. */
const MOST_VIEWED = 26_214_400;
/** Files that are edited, in bytes. */
const MOST_EDITED = 10_485_760;
/** Times that an edit is made anew because somebody else has written meanwhile: a command, or another process. */
const MOST_TRIES = 20;
/** Longest pause between two of them; the first are short, since other edits wait for this one. */
const PATIENCE_MS = 25;
const MASK = /\[(?:redacted|hidden|masked|REDACTED_SECRET):[A-Za-z0-9._-]+\]|\[\*\*\*\]/;

/** A file as it is shown. */
export interface View {
  readonly content: string;
  readonly truncated: boolean;
  /** Of the whole file. */
  readonly lines: number;
  readonly etag: string;
}

/** What an edit did. */
export interface Edited {
  readonly occurrences: number;
  /** Of the file as it is now. */
  readonly etag: string;
  /** Why nothing matched, where that is known. */
  readonly hint: string | null;
}

/** Shows lines of a file. Errors: `file_over_limit`, `not_text`, and those of reading. */
export async function viewFile(
  files: RunnerFiles,
  redaction: Redaction,
  { path, range }: { readonly path: string; readonly range: LineRange | null },
  signal: AbortSignal,
): Promise<View> {
  const hash = createHash('sha256');
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  // Hidden before lines are chosen: a value of several lines is hidden in each of them.
  const redactor = redaction.showing();
  const view = new LineView(range);
  let lines = 1;
  const take = (text: string): void => {
    if (!view.isDone) view.push(redactor.push(text));
  };
  for await (const bytes of pieces(files, path, MOST_VIEWED, signal)) {
    hash.update(bytes);
    lines += countLines(bytes);
    take(decoded(path, () => decoder.decode(bytes, { stream: true })));
  }
  take(decoded(path, () => decoder.decode()));
  if (!view.isDone) view.push(redactor.flush());
  return { ...view.finish(), lines, etag: etagOf(hash.digest()) };
}

/** Which edit of which file. */
interface Editing {
  readonly path: string;
  readonly edit: Edit;
  readonly expected: FilePrecondition | null;
}

/** Replaces text; whoever else writes at the same time loses nothing. Errors: `bad_request`, `file_changed`, `file_busy`. */
export async function editFile(
  files: Pick<RunnerFiles, 'agent' | 'agentStream'>,
  turns: EditTurns,
  editing: Editing,
  signal: AbortSignal,
): Promise<Edited> {
  if (editing.edit.oldText === '') {
    throw new BoxkiteError('bad_request', 'old_str is empty', {
      hint: 'Give the text that is to be replaced; a new file is made by /file-create.',
      details: { field: 'old_str' },
    });
  }
  return await turns.take(editing.path, signal, () => editAmongOthers(files, editing, signal));
}

async function editAmongOthers(
  files: Pick<RunnerFiles, 'agent' | 'agentStream'>,
  { path, edit, expected }: Editing,
  signal: AbortSignal,
): Promise<Edited> {
  for (let tries = 1; ; tries += 1) {
    const before = await readWhole(files, path, MOST_EDITED, signal);
    const digest = createHash('sha256').update(before).digest();
    if (expected === 'nothing') throw fileChanged(path, expected);
    if (expected !== null && digest.toString('hex') !== expected.sha256) throw fileChanged(path, expected);
    const { after, occurrences } = applyEdit(before, edit);
    if (after === null) {
      refuseMask(before, edit);
      return { occurrences, etag: etagOf(digest), hint: whyNoMatch(before, edit) };
    }
    if (await replaceUnchanged(files, { path, digest, content: after }, signal)) {
      return { occurrences, etag: etagOf(createHash('sha256').update(after).digest()), hint: null };
    }
    if (expected !== null) throw fileChanged(path, expected);
    if (tries === MOST_TRIES) throw new BoxkiteError('file_busy', `${path} is written all the time by somebody else`);
    await new Promise((resolve) => {
      setTimeout(resolve, Math.random() * Math.min(2 ** tries, PATIENCE_MS));
    });
  }
}

/** What was written. */
export interface Created {
  readonly etag: string;
  /** Bytes. */
  readonly size: number;
}

/** Writes a file. Errors: `file_changed`, and those of writing. */
export async function createFile(
  files: RunnerFiles,
  {
    path,
    content,
    expected,
  }: { readonly path: string; readonly content: string; readonly expected: FilePrecondition | null },
  signal: AbortSignal,
): Promise<Created> {
  // The same bytes may be written again with the same end, unless something else is expected to be there before.
  const repeat = expected === null ? 'repeatable' : 'once';
  return await files.agent(
    path,
    async (client) => {
      const bytes = new TextBytes(content);
      const digest = await writeExpecting(path, expected ?? undefined, (condition) =>
        // What its caller has read is replaced although its mode forbids it, as an edit does.
        client.writeHashed(path, bytes, { ...condition, closed: condition.unchanged !== undefined, signal }),
      );
      return { etag: etagOf(digest), size: bytes.length };
    },
    signal,
    repeat,
  );
}

/** The bytes of a file of at most so many. Errors: `file_over_limit`. */
export async function readWhole(
  files: Pick<RunnerFiles, 'agentStream'>,
  path: string,
  most: number,
  signal: AbortSignal,
): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of pieces(files, path, most, signal)) parts.push(part);
  return Buffer.concat(parts);
}

/** Its size is known before the first byte is asked for, and no more is read, however much it grows. */
async function* pieces(
  files: Pick<RunnerFiles, 'agentStream'>,
  path: string,
  most: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  let read = 0;
  const all = files.agentStream(
    path,
    async function* (client) {
      const reading = client.read(path, { length: most + 1, signal });
      const { size } = await reading.meta();
      if (size > most) {
        reading.close();
        throw overLimit(path, size, most);
      }
      yield* reading;
    },
    signal,
  );
  for await (const part of all) {
    read += part.length;
    if (read > most) throw overLimit(path, read, most);
    yield part;
  }
}

/** False where the file is not what it was. */
async function replaceUnchanged(
  files: Pick<RunnerFiles, 'agent'>,
  { path, digest, content }: { readonly path: string; readonly digest: Uint8Array; readonly content: Buffer },
  signal: AbortSignal,
): Promise<boolean> {
  return files.agent(
    path,
    async (client) => {
      try {
        await client.write(path, content, { unchanged: digest, closed: true, signal });
        return true;
      } catch (error) {
        if (error instanceof FileAgentError && error.code === 'changed') return false;
        throw error;
      }
    },
    signal,
    'once',
  );
}

function decoded(path: string, decode: () => string): string {
  try {
    return decode();
  } catch (cause) {
    throw new BoxkiteError('not_text', `${path} is a binary file: it is not UTF-8`, { details: { path }, cause });
  }
}

function overLimit(path: string, size: number, limit: number): BoxkiteError {
  return new BoxkiteError('file_over_limit', `${path} has ${size} bytes; the limit is ${limit}`, {
    details: { path, size, limit },
  });
}

/** A view shows a placeholder where the file has a secret, which no caller is to write over it. */
function refuseMask(before: Buffer, { oldText }: Edit): void {
  const mask = MASK.exec(oldText)?.[0];
  if (mask === undefined || before.includes(mask)) return;
  throw new BoxkiteError('bad_request', `old_str has ${mask}, which stands for a secret value that is not shown`, {
    hint: 'Choose text around it that has no placeholder; the value itself stays as it is.',
    details: { field: 'old_str' },
  });
}
