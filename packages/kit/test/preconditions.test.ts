/** What has to be at a path, from the headers of a request. */
import { describe, expect, it } from 'vitest';
import { etagOf, preconditionOf } from '../src/http/preconditions.ts';

describe('a precondition', () => {
  const digest = Buffer.alloc(32, 7);

  it('is read from its headers', () => {
    expect(preconditionOf({})).toBeNull();
    expect(preconditionOf({ 'if-none-match': ' * ' })).toBe('nothing');
    expect(preconditionOf({ 'if-match': etagOf(digest) })).toEqual({ sha256: digest.toString('hex') });
  });

  it.each([
    { 'if-match': '*' },
    { 'if-match': 'W/"x"' },
    { 'if-match': `${etagOf(digest)}, ${etagOf(digest)}` },
    { 'if-match': etagOf(Buffer.alloc(32, 0xab)).toUpperCase() },
    { 'if-none-match': etagOf(digest) },
    { 'if-none-match': '*', 'if-match': etagOf(digest) },
  ])('%j is refused', (headers) => {
    expect(() => preconditionOf(headers)).toThrow(expect.objectContaining({ code: 'invalid_request' }));
  });
});
