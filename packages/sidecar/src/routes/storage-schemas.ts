/** Requests of `/prefetch-uploads`. */
import { list } from '@boxkite/protocol';
import { z } from 'zod';
import { clean } from './schema-parts.ts';

/** Uploads of one call. */
const mostUploads = 1_000;

/** Body of `POST /prefetch-uploads`. */
export const prefetchBody = z.object({
  organization_id: clean.max(200).nullish().describe('Whose uploads the ids are. Default: that of the session'),
  upload_file_ids: list(clean.min(1).max(254), (ids) => ids.max(mostUploads)).nullish(),
});
