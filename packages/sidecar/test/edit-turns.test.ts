/** Edits of one file at the same time, of this process and of others. */
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type FileAgentClient, FileAgentError, type RunnerFiles } from '@boxkite/runner-client';
import { beforeEach, describe, expect, it } from 'vitest';
import { EditTurns } from '../src/files/edit-turns.ts';
import { editFile } from '../src/files/text-files.ts';

const PATH = '/workspace/shared';
const never = new AbortController().signal;

/** One file of an agent that writes only over what was read, and takes its time between the two. */
class OneFile {
  content: string;
  /** Somebody else's write, as each of the edits is about to be written. */
  between: () => Promise<void> = () => delay(5);
  readonly #client: unknown = {
    read: () => {
      const bytes = Buffer.from(this.content);
      const reading = (async function* () {
        yield bytes;
      })();
      return Object.assign(reading, { meta: () => Promise.resolve({ size: bytes.length }) });
    },
    write: async (path: string, content: Buffer, { unchanged }: { unchanged: Uint8Array }) => {
      await this.between();
      const now = createHash('sha256').update(this.content).digest();
      if (!now.equals(unchanged)) throw new FileAgentError('changed', 0, `${path} has changed`);
      this.content = content.toString();
    },
  };

  constructor(content: string) {
    this.content = content;
  }

  get files(): Pick<RunnerFiles, 'agent' | 'agentStream'> {
    const client = this.#client as FileAgentClient;
    return {
      agent: (_path, run) => run(client),
      async *agentStream(_path, run) {
        yield* run(client);
      },
    };
  }
}

let turns: EditTurns;

beforeEach(() => {
  turns = new EditTurns();
});

const edit = (file: OneFile, oldText: string, newText: string, signal = never, path = PATH) =>
  editFile(file.files, turns, { path, edit: { oldText, newText, all: false }, expected: null }, signal);

it('loses no edit of a hundred at once, and refuses none', async () => {
  const lines = (word: string) => Array.from({ length: 100 }, (_, at) => `${word} ${at}.\n`).join('');
  const file = new OneFile(lines('line'));
  const edits = Array.from({ length: 100 }, (_, at) => edit(file, `line ${at}.`, `done ${at}.`));
  const outcomes = await Promise.allSettled(edits);
  expect(outcomes.filter(({ status }) => status === 'rejected')).toEqual([]);
  expect(file.content).toBe(lines('done'));
  expect(turns.isIdle).toBe(true);
});

it('gives up where somebody else writes all the time', async () => {
  const file = new OneFile('a');
  file.between = async () => {
    file.content += 'x';
  };
  await expect(edit(file, 'a', 'b')).rejects.toMatchObject({ code: 'file_busy' });
  expect(file.content).toBe(`a${'x'.repeat(20)}`);
  expect(turns.isIdle).toBe(true);
});

describe('a turn', () => {
  it('ends with what fails, and waits for no other file', async () => {
    const file = new OneFile('a');
    const held = Promise.withResolvers<void>();
    file.between = () => held.promise;
    const failing = edit(file, 'a', 'b');
    const behind = edit(file, 'a', 'c');
    const other = new OneFile('a');
    await edit(other, 'a', 'd', never, '/workspace/other');
    expect(other.content).toBe('d');
    file.between = () => Promise.resolve();
    held.reject(new Error('of the agent'));
    await expect(failing).rejects.toThrow('of the agent');
    await behind;
    expect(file.content).toBe('c');
    expect(turns.isIdle).toBe(true);
  });

  it('is left by whoever is cancelled, at once, and passes to the next', async () => {
    const file = new OneFile('a');
    const held = Promise.withResolvers<void>();
    file.between = () => held.promise;
    const first = edit(file, 'a', 'ab');
    const leaving = new AbortController();
    const left = edit(file, 'a', 'never', leaving.signal);
    const last = edit(file, 'b', 'c');
    leaving.abort();
    await expect(left).rejects.toMatchObject({ code: 'aborted' });
    await expect(edit(file, 'a', 'never', leaving.signal)).rejects.toMatchObject({ code: 'aborted' });
    held.resolve();
    await Promise.all([first, last]);
    expect(file.content).toBe('ac');
    expect(turns.isIdle).toBe(true);
  });
});
