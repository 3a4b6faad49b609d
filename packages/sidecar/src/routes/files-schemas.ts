/** Requests of the reference's text files. */
import { numeric } from '@boxkite/protocol';
import { z } from 'zod';
import { mostText } from './schema-parts.ts';

/** Characters are counted where code units would be too many. */
const text = z
  .string()
  .refine(
    (value) => value.length <= mostText || characters(value) <= mostText,
    `must have at most ${mostText} characters`,
  )
  .refine((value) => value.isWellFormed(), 'must be well-formed Unicode');

const path = z.string().max(16_384).describe('Absolute, or from /workspace on');
const description = z.string().nullish().describe('For people; nothing keeps it');

/** Body of `POST /file-create`. */
export const createBody = z.object({ path, content: text, description });

/** Body of `POST /view`. */
export const viewBody = z.object({
  path,
  view_range: z
    .array(numeric.pipe(z.number().int()))
    .nullish()
    .describe('First and last line, from 1 on; -1 is the last one. Of another length than two: ignored'),
  description,
});

/** Body of `POST /str-replace`. */
export const replaceBody = z.object({
  path,
  old_str: text.describe('Found literally; must be unique unless replace_all'),
  new_str: text,
  replace_all: z.boolean().nullish().describe('Default false'),
  description,
});

/** Body of `POST /present-files`. */
export const presentBody = z.object({
  filepaths: z.array(path).max(1000).describe('Files that are copied to the outputs and stored'),
});

function characters(value: string): number {
  let found = 0;
  for (const _ of value) found += 1;
  return found;
}
