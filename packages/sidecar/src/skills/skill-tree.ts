/** What skills are as files: checked whole before the first one is written. */
import { createHash } from 'node:crypto';
import { BoxkiteError } from '@boxkite/protocol';

/** A skill as the reference's clients send it. */
export interface Skill {
  readonly instance_slug: string;
  readonly display_name: string;
  readonly description: string;
  readonly source_type: string;
  readonly skill_path: string;
  readonly entrypoints: readonly {
    readonly path: string;
    readonly runtime: string;
    readonly name: string;
    readonly description: string;
  }[];
  readonly files: readonly { readonly path: string; readonly content: string }[];
}

/** Files by their paths below the root of skills, in one tree for each name at the top. */
export type SkillTrees = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** Names of our own, which come and go at the top. */
export const OWN_NAME = '.boxkite-';

const MOST_PATH_BYTES = 2048;
const MOST_NAME_BYTES = 255;

/** Errors: `bad_request`. A skill without files is a directory. */
export function treesOf(skills: readonly Skill[]): SkillTrees {
  const trees = new Map<string, Map<string, string>>();
  const slugs = new Set<string>();
  for (const { instance_slug, files } of skills) {
    const slug = namesOf(slugOf(instance_slug), 'instance_slug', instance_slug);
    const [top = ''] = slug;
    if (top.startsWith(OWN_NAME)) throw bad('instance_slug', instance_slug, `begins with ${OWN_NAME}`);
    if (slugs.has(slug.join('/'))) throw bad('instance_slug', instance_slug, 'is there twice');
    slugs.add(slug.join('/'));
    const tree = trees.get(top) ?? new Map<string, string>();
    trees.set(top, tree);
    for (const file of files) {
      const path = [...slug, ...namesOf(file.path.replace(/^\/+/, ''), 'path', file.path)].join('/');
      if (tree.has(path)) throw bad('path', file.path, 'is there twice');
      tree.set(path, file.content);
    }
  }
  for (const tree of trees.values()) refuseFilesInPlaceOfDirectories(tree, slugs);
  return trees;
}

/** Directories of the skills, parents first. */
export function directoriesOf(trees: SkillTrees, skills: readonly Skill[]): readonly string[] {
  const found = new Set<string>();
  const add = (names: readonly string[]): void => {
    for (let length = 1; length <= names.length; length += 1) found.add(names.slice(0, length).join('/'));
  };
  for (const { instance_slug } of skills) add(slugOf(instance_slug).split('/'));
  for (const tree of trees.values()) for (const path of tree.keys()) add(path.split('/').slice(0, -1));
  return [...found].sort((a, b) => a.split('/').length - b.split('/').length);
}

/** What two sets of skills that are the same have in common, whatever their order: hex. */
export function revisionOf(skills: readonly Skill[]): string {
  const canonical = skills
    .map(({ entrypoints, files, ...rest }) => ({
      description: rest.description,
      display_name: rest.display_name,
      entrypoints: sorted(
        entrypoints.map(({ description, name, path, runtime }) => ({ description, name, path, runtime })),
        (one) => JSON.stringify(one),
      ),
      files: sorted(
        files.map(({ content, path }) => ({ content, path })),
        (one) => one.path,
      ),
      instance_slug: rest.instance_slug,
      skill_path: rest.skill_path,
      source_type: rest.source_type,
    }))
    .sort((a, b) => (a.instance_slug < b.instance_slug ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(canonical)).digest('hex');
}

function sorted<T>(items: readonly T[], by: (item: T) => string): readonly T[] {
  return [...items].sort((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0));
}

function slugOf(given: string): string {
  return given.trim().replace(/^\/+|\/+$/g, '');
}

/** The names of a relative path that leads downwards. */
function namesOf(path: string, field: string, given: string): readonly string[] {
  const names = path.split('/');
  if (path === '') throw bad(field, given, 'is empty');
  if (names.some((name) => name === '..' || name === '.' || name === '')) {
    throw bad(field, given, 'does not lead downwards by plain names');
  }
  if (path.includes('\0') || path.includes('\\')) throw bad(field, given, 'has a NUL or a backslash');
  const isLong =
    Buffer.byteLength(path) > MOST_PATH_BYTES || names.some((name) => Buffer.byteLength(name) > MOST_NAME_BYTES);
  if (isLong) throw bad(field, given.slice(0, 64), 'is too long');
  return names;
}

function refuseFilesInPlaceOfDirectories(tree: ReadonlyMap<string, string>, slugs: ReadonlySet<string>): void {
  for (const path of tree.keys()) {
    if (slugs.has(path)) throw bad('path', path, 'is a skill as well');
    for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) {
      if (tree.has(path.slice(0, at))) throw bad('path', path.slice(0, at), 'is a file and a directory');
    }
  }
}

function bad(field: string, given: string, why: string): BoxkiteError {
  return new BoxkiteError('bad_request', `${field} ${JSON.stringify(given)} ${why}`, {
    hint: 'Use plain names with single slashes between them; nothing was written.',
    details: { field },
  });
}
