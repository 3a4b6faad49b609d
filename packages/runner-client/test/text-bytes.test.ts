import { createHash, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type FileAgentClient, TextBytes } from '../src/files/index.ts';
import { AgentProcess } from './files/agent-process.ts';

let agent: AgentProcess;
let client: FileAgentClient;

beforeAll(async () => {
  agent = await AgentProcess.start();
  client = await agent.client();
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
});

const unit = fc.constantFrom('a', '\n', '\u00e9', '\u20ac', '\u{1f600}', '\ud83d', '\ude00');

test('the pieces are the text as UTF-8, wherever it is cut', () => {
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 40 }), fc.integer({ min: 4, max: 9 }), (text, room) => {
      const bytes = new TextBytes(text);
      const memory = new Uint8Array(room);
      const pieces: Buffer[] = [];
      for (let count = bytes.fill(memory); count > 0; count = bytes.fill(memory)) {
        pieces.push(Buffer.from(memory.subarray(0, count)));
      }
      expect(Buffer.concat(pieces).toString('hex')).toBe(Buffer.from(text).toString('hex'));
      expect(bytes.length).toBe(Buffer.byteLength(text));
    }),
    { numRuns: 2000 },
  );
});

test('what is small is whole, and what is not is left', () => {
  const text = 'ab\u20ac';
  const [fits, long] = [new TextBytes(text), new TextBytes(text)];
  expect([fits.whole(5)?.toString(), fits.length, fits.fill(new Uint8Array(8))]).toEqual([text, 5, 0]);
  expect([long.whole(4), long.length, long.fill(new Uint8Array(8))]).toEqual([null, 0, 5]);
});

const line = 'a line, \u00e9 and \u{1f600}\n';
test.each([0, 1, 1000, 100_000, 1_000_000])('%i lines are written, hashed and counted', async (lines) => {
  const text = line.repeat(lines);
  const bytes = new TextBytes(text);
  const digest = await client.writeHashed('/workspace/text', bytes);
  expect(bytes.length).toBe(Buffer.byteLength(text));
  expect(digest.equals(createHash('sha256').update(text).digest())).toBe(true);
  expect((await readFile(agent.host('workspace', 'text'), 'utf8')) === text).toBe(true);
});

test('texts that are written at the same time, some of them given up, do not get into each other', async () => {
  const texts = Array.from({ length: 12 }, (_, at) => `${at} ${randomBytes(600).toString('hex')}\n`.repeat(1500));
  const giveUp = new AbortController();
  const results = await Promise.allSettled(
    texts.map(async (text, at) => {
      const signal = at % 3 === 2 ? giveUp.signal : undefined;
      const written = client.writeHashed(`/workspace/text-${at}`, new TextBytes(text), { signal });
      if (at === 11) setTimeout(() => giveUp.abort(), 2);
      await written;
    }),
  );
  for (const [at, text] of texts.entries()) {
    if (at % 3 === 2) continue;
    expect(results[at]?.status).toBe('fulfilled');
    expect((await readFile(agent.host('workspace', `text-${at}`), 'utf8')) === text).toBe(true);
  }
  expect(results.some(({ status }) => status === 'rejected')).toBe(true);
  const after = line.repeat(100_000);
  await client.write('/workspace/after', new TextBytes(after));
  expect((await readFile(agent.host('workspace', 'after'), 'utf8')) === after).toBe(true);
});
