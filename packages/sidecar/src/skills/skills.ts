/** Files that an agent is given to read: one set at a time, put in the place of the last one. */
import { randomBytes } from 'node:crypto';
import { BoxkiteError } from '@boxkite/protocol';
import type { RunnerFiles } from '@boxkite/runner-client';
import { z } from 'zod';
import type { Configured } from '../session/configuration.ts';
import { generationGone } from '../session/generation.ts';
import type { SessionCore, SessionPart } from '../session/part.ts';
import { forEachOf } from '../storage/parallel.ts';
import { directoriesOf, OWN_NAME, revisionOf, type Skill, treesOf } from './skill-tree.ts';

const ROOT = '/mnt/skills';
const FILE_MODE = 0o444;
const DIRECTORY_MODE = 0o555;
const AT_ONCE = 8;

const keptSchema = z.object({ revision: z.string().nullable(), session: z.string().nullable() });

/** What became of a set. */
export interface SkillsChange {
  readonly changed: boolean;
  readonly revision: string;
  readonly skills: number;
  readonly files: number;
}

/** See above. Calls follow each other. */
export class Skills implements SessionPart {
  readonly #core: SessionCore;
  #revision: string | null = null;
  /** Whose skills they are. */
  #session: string | null = null;
  /** The revision of the use that ended, until it is known whether its skills stay. */
  #held: string | null = null;
  #changing: Promise<unknown> = Promise.resolve();
  #writing: RunnerFiles | null = null;
  /** Between two uses nobody is given skills. */
  #isEnded = false;

  constructor(core: SessionCore) {
    this.#core = core;
    const found = keptSchema.safeParse(core.found('skills'));
    if (!found.success) return;
    this.#revision = found.data.revision;
    this.#session = found.data.session;
  }

  /** Of the set that is in place; `null`: none, or one that was broken off. */
  get revision(): string | null {
    return this.#revision;
  }

  kept(): unknown {
    return this.#revision === null && this.#session === null
      ? undefined
      : { revision: this.#revision, session: this.#session };
  }

  /** Skills of a named session stay for it alone. */
  static staysFor(before: Configured | null, next: { readonly session_id: string | null }): boolean {
    return before !== null && next.session_id !== null && before.session_id === next.session_id;
  }

  /** Ends what is being written, so that nothing is written after the wipe. */
  async reset(): Promise<void> {
    this.#isEnded = true;
    this.#writing?.close(new BoxkiteError('generation_gone', 'the sandbox is configured anew'));
    await this.#changing;
    this.#held ??= this.#revision;
    // Before the first file goes: the next process must not take a wiped directory for this set.
    await this.#remember(null);
  }

  begin({ session_id }: Configured): Promise<void> {
    this.#revision = session_id !== null && session_id === this.#session ? this.#held : null;
    this.#session = session_id;
    this.#held = null;
    this.#isEnded = false;
    return Promise.resolve();
  }

  close(): void {
    this.#writing?.close(new BoxkiteError('state_unavailable', 'the process that holds the sandbox stops'));
  }

  /**
   * Makes the set be there, unless one of this revision is. Without a revision it is that of the content. Errors:
   * `bad_request`, before anything is written; those of files, after which the last set is there or no revision is.
   */
  ensure(skills: readonly Skill[], wanted: string | null): Promise<SkillsChange> {
    const use = this.#core.use();
    const changing = this.#changing.then(() => this.#ensure(skills, wanted, use));
    this.#changing = changing.catch(() => undefined);
    return changing;
  }

  async #ensure(skills: readonly Skill[], wanted: string | null, use: number): Promise<SkillsChange> {
    if (use !== this.#core.use() || this.#isEnded) throw generationGone();
    const revision = wanted ?? revisionOf(skills);
    if (revision === this.#revision) return { changed: false, revision, skills: 0, files: 0 };
    const trees = treesOf(skills);
    const files = this.#core.provision();
    this.#writing = files;
    try {
      const set = new SkillSet(files);
      await set.removeOwn();
      await set.stage(
        trees.keys(),
        directoriesOf(trees, skills),
        [...trees.values()].flatMap((tree) => [...tree]),
      );
      // From here on a process that ends leaves a mixture, which the next call replaces.
      await this.#remember(null);
      await set.swap();
      await this.#remember(revision);
      await set.removeOwn();
    } finally {
      this.#writing = null;
      files.close();
    }
    const count = [...trees.values()].reduce((sum, tree) => sum + tree.size, 0);
    return { changed: true, revision, skills: skills.length, files: count };
  }

  async #remember(revision: string | null): Promise<void> {
    if (this.#revision === revision) return;
    this.#revision = revision;
    await this.#core.save();
  }
}

/** One set on its way: beside the last one under names of our own, then each name at the top in one step. */
class SkillSet {
  readonly #files: RunnerFiles;
  readonly #token = randomBytes(8).toString('hex');
  #tops: readonly string[] = [];

  constructor(files: RunnerFiles) {
    this.#files = files;
  }

  /** Leftovers of calls that ended in the middle. */
  async removeOwn(): Promise<void> {
    for (const name of await this.#names()) if (name.startsWith(OWN_NAME)) await this.#files.remove(`${ROOT}/${name}`);
  }

  async stage(
    tops: Iterable<string>,
    directories: readonly string[],
    files: readonly (readonly [path: string, content: string])[],
  ): Promise<void> {
    this.#tops = [...tops];
    for (const directory of directories) await this.#files.mkdir(this.#staged(directory));
    await forEachOf(files, AT_ONCE, ([path, content]) =>
      this.#files.write(this.#staged(path), Buffer.from(content), { mode: FILE_MODE, parents: false }),
    );
    // The deepest first: what is closed is not entered for writing any more.
    for (const directory of [...directories].reverse()) {
      const path = this.#staged(directory);
      await this.#files.agent(path, (client) => client.chmod(path, DIRECTORY_MODE));
    }
  }

  /** Every name is the last set's or this one's at any time, but for the moment between two renames. */
  async swap(): Promise<void> {
    const present = (await this.#names()).filter((name) => !name.startsWith(OWN_NAME));
    const moved: [from: string, to: string][] = [];
    const move = async (from: string, to: string): Promise<void> => {
      await this.#files.move(from, to);
      moved.push([from, to]);
    };
    try {
      for (const [index, name] of present.entries()) {
        await move(`${ROOT}/${name}`, `${ROOT}/${OWN_NAME}${this.#token}-old-${index}`);
        if (this.#tops.includes(name)) await move(this.#staged(name), `${ROOT}/${name}`);
      }
      for (const name of this.#tops) {
        if (!present.includes(name)) await move(this.#staged(name), `${ROOT}/${name}`);
      }
    } catch (error) {
      for (const [from, to] of moved.reverse()) await this.#files.move(to, from).catch(() => undefined);
      throw error;
    }
  }

  #staged(path: string): string {
    const [top = '', ...rest] = path.split('/');
    return [ROOT, `${OWN_NAME}${this.#token}-new-${this.#tops.indexOf(top)}`, ...rest].join('/');
  }

  async #names(): Promise<string[]> {
    const names: string[] = [];
    for await (const { name } of this.#files.list(ROOT)) names.push(name);
    return names;
  }
}
