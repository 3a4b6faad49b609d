/** Requests about images. */
import { z } from 'zod';

/** Body of `POST /read-image`. */
export const readImageBody = z.object({
  path: z.string().max(16_384).describe('Absolute, or from /workspace on'),
  description: z.string().nullish().describe('For people; nothing keeps it'),
});
