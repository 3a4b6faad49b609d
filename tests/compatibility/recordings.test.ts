/** The published client still sends and reads what was recorded of it: what the sidecar's routes are built by. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Recordings, record } from './support/record.ts';

const directory = join(import.meta.dirname, 'recordings');
const files = ['library.json', 'command-line.json'] as const;
/** Facts, not transcripts. */
const MOST_BYTES = 64 * 1024;

function stored(name: (typeof files)[number]): unknown {
  return JSON.parse(readFileSync(join(directory, name), 'utf8'));
}

describe('the recordings', () => {
  let now: Recordings;

  beforeAll(async () => {
    now = await record();
  }, 240_000);

  it('are what the library sends and reads in compose mode', () => {
    const { calls, ...rest } = stored('library.json') as Recordings['library'];
    expect({ ...now.library, calls: [] }).toEqual({ ...rest, calls: [] });
    for (const [index, call] of calls.entries()) expect(now.library.calls[index], call.call).toEqual(call);
    expect(now.library.calls.length).toBe(calls.length);
  });

  it('are what the command-line program sends and reads in local mode', () => {
    expect(now.command_line).toEqual(stored('command-line.json'));
  });

  it('name each call once', () => {
    for (const calls of [now.library.calls, now.command_line.calls]) {
      expect(new Set(calls.map(({ call }) => call)).size).toBe(calls.length);
    }
  });

  it('have the 15 tools', () => {
    const called = new Set(now.library.calls.map(({ call }) => /^tool (\w+)/.exec(call)?.[1]));
    expect(now.library.tools.map(({ name }) => name).filter((name) => !called.has(name))).toEqual([]);
    expect(now.library.tools.length).toBe(15);
  });

  it('are small', () => {
    for (const name of files) expect(statSync(join(directory, name)).size, name).toBeLessThan(MOST_BYTES);
  });
});
