/** Parts of the requests that are the sidecar's own. Unknown fields are ignored. */
import { z } from 'zod';

/** Characters of a text field. */
export const mostText = 10_485_760;

/** Bytes of a body with one text field: each character may be an escape of six. */
export const textBodyBytes = 6 * mostText + 64 * 1024;

/** Text that means the same to everybody who reads it. */
export const clean = z
  .string()
  .refine((value) => !value.includes('\0'), 'must not contain a NUL byte')
  .refine((value) => value.isWellFormed(), 'must be well-formed Unicode');
