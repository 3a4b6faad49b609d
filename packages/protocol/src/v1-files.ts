import { z } from 'zod';
import { count, flag, natural, path, text } from './schema-parts.ts';

/** Files of `/v1`: their requests and answers. */

/** Name of the header that carries a `FileInfo` as JSON, in which all that is not ASCII is escaped. */
export const fileInfoHeader = 'x-boxkite-file';
/** Name of the header that says where raw output begins. */
export const outputOffsetHeader = 'x-boxkite-offset';

const filePath = path('Absolute, or from /workspace on');

/** Query of everything that names one path. */
export const pathQuery = z.object({ path: filePath });

/** Query of `GET …/files/stat`. */
export const statQuery = z.object({
  path: filePath,
  follow: flag('Look at what a link leads to; default false').optional(),
});

/** Query of `PUT …/files/content`. */
export const writeQuery = z.object({
  path: filePath,
  mode: z
    .string()
    .regex(/^0?[0-7]{3}$/, 'must be three octal digits')
    .transform((value) => Number.parseInt(value, 8))
    .optional()
    .describe('Permission bits in octal, such as 0644'),
  parents: flag('Make missing parents; default true').optional(),
});

/** A file. */
export const fileInfo = z
  .object({
    name: z.string(),
    path: z.string(),
    type: z.enum(['file', 'directory', 'symlink', 'other']),
    size: natural,
    mode: natural.describe('Permission bits'),
    modified_ms: z.number().describe('ms since 1970, UTC'),
    target: z.string().optional().describe('Where a symbolic link leads'),
  })
  .describe('One file');

/** Body of `POST …/files/move`. */
export const moveBody = z.object({ from: filePath, to: filePath });
/** Body of `POST …/files/mkdir`. */
export const mkdirBody = z.object({ path: filePath });

/** Body of `POST …/files/ls`. */
export const listFilesBody = z.object({
  path: filePath.optional().describe('Default /workspace'),
  limit: count(100_000, 'A page of so many, in the order of names. Default: all').optional(),
  cursor: text('next_cursor of the page before').min(1).max(1024).nullish(),
});

/** The answer to `POST …/files/ls`. */
export const fileList = z.object({
  entries: z.array(fileInfo.extend({ is_dir: z.boolean(), modified_at: z.string().describe('ISO 8601, UTC') })),
  next_cursor: z.string().nullable(),
});

/** Body of `POST …/files`: a text file. */
export const createFileBody = z.object({
  path: filePath,
  content: z
    .string()
    .max(10_485_760)
    .refine((value) => value.isWellFormed(), 'must be well-formed Unicode'),
});

/** The answer to `POST …/files`. */
export const createdFile = z.object({ path: z.string(), size: natural, created: z.boolean() });

/** See `fileInfo`. */
export type FileInfoJson = z.output<typeof fileInfo>;
/** See `fileList`. */
export type FileList = z.output<typeof fileList>;

/** Trailer of an archive: `packEnd` as JSON. */
export const packEndTrailer = 'boxkite-archive-end';
/** What an archive lacks; see `PackEnd` of the port. */
export const packEnd = z.object({ omitted: z.int().min(0), cut: z.int().min(0) });
