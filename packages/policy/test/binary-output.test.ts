/** Bytes that are no text: what looks like a credential in them by chance is rare, and stays rare with each new pattern. */
import { createCipheriv } from 'node:crypto';
import { expect, it } from 'vitest';
import { createByteRedactor } from '../src/index.ts';

const PIECE = 4_000_000;
const PIECES = 150;

it('are altered about once in 290 MB', () => {
  // The same bytes in every run.
  const noise = createCipheriv('aes-128-ctr', Buffer.alloc(16), Buffer.alloc(16));
  let altered = 0;
  for (let piece = 0; piece < PIECES; piece += 1) {
    const bytes = noise.update(Buffer.alloc(PIECE));
    const redactor = createByteRedactor({});
    if (!Buffer.concat([redactor.push(bytes), redactor.flush()]).equals(bytes)) altered += 1;
  }
  expect(altered).toBeLessThan(8);
});
