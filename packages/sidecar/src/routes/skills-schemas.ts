/** Requests of `/ensure-skills` and `/inject-skills`. */
import { list } from '@boxkite/protocol';
import { z } from 'zod';
import { clean } from './schema-parts.ts';

const words = z
  .string()
  .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')
  .nullish()
  .transform((value) => value ?? '');
const mostFiles = 10_000;
const mostSkills = 1_000;

const skill = z.object({
  instance_slug: clean.describe('Name of its directory below /mnt/skills'),
  display_name: words,
  description: words,
  source_type: words,
  skill_path: words,
  entrypoints: list(z.object({ path: words, runtime: words, name: words, description: words }), (all) =>
    all.max(mostFiles),
  )
    .nullish()
    .transform((all) => all ?? []),
  files: list(
    z.object({
      path: clean.describe('Below the directory of the skill'),
      content: z.string().refine((value) => value.isWellFormed(), 'must be well-formed Unicode'),
    }),
    (all) => all.max(mostFiles),
  )
    .nullish()
    .transform((all) => all ?? []),
});

/** Body of `POST /ensure-skills`. */
export const skillsBody = z.object({
  skills: list(skill, (all) => all.max(mostSkills)).describe('The whole set: what is not in it is removed'),
  skills_rev: z.string().min(1).max(200).nullish().describe('What the set is called. Default: a hash of its content'),
});
