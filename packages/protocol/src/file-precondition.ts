import { BoxkiteError } from './errors.ts';
import type { FilePrecondition } from './port.ts';

/**
 * The SHA-256 of what has to be at a path, in lower-case hexadecimal; `null`: nothing may be there. Whoever says neither would
 * write over anything. Errors: `invalid_request`.
 */
export function expectedSha256(expected: FilePrecondition): string | null {
  if (expected === 'nothing') return null;
  const given: unknown = typeof expected === 'object' && expected !== null ? expected.sha256 : undefined;
  if (typeof given === 'string' && /^[0-9a-f]{64}$/i.test(given)) return given.toLowerCase();
  throw new BoxkiteError('invalid_request', "expected: is to be 'nothing', or sha256 with 64 hexadecimal digits", {
    details: { field: 'expected' },
  });
}
