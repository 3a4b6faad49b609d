/** Requests of `/scratch/*`. */
import { z } from 'zod';

const wellFormed = z.string().refine((value) => value.isWellFormed(), 'must be well-formed Unicode');

/** Body of `POST /scratch/set`. */
export const scratchSetBody = z.object({
  key: wellFormed.describe('1 to 256 characters'),
  value: wellFormed.describe('Up to 65,536 bytes'),
});

/** Query of `GET /scratch/get` and body of `POST /scratch/delete`. */
export const scratchKey = z.object({ key: wellFormed });
