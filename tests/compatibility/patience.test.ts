/** A command that takes longer than the published library waits for a byte. */
import { randomUUID } from 'node:crypto';
import { startSidecar } from '@boxkite/testing';
import { expect, it } from 'vitest';
import { Library } from './support/published.ts';

it('is answered, although the library gives up after 120 s of silence', { timeout: 240_000 }, async () => {
  await using sidecar = await startSidecar();
  await using library = new Library(sidecar);
  await library.createSession(randomUUID());
  const command = 'echo begun; sleep 123; echo done';
  expect(await library.tool('bash_tool', { command, timeout: 600 })).toBe('begun\ndone\n');
});
