/** The secret values that a session has been told of. What a record hides is frozen when its exec starts. */
import { KnownValues } from '@boxkite/policy';
import { BoxkiteError, spoolBytes } from '@boxkite/protocol';
import { z } from 'zod';
import { knownLines } from './known-lines.ts';

/** Name, value, and whether it is a secret that was granted by this name; oldest use first. */
type Entry = readonly [name: string, value: string, isGranted: boolean];

/** Values as they are kept for the next process of this session. */
export const keptSecretsSchema = z.object({
  current: z.string().nullable(),
  sets: z.record(z.string(), z.array(z.tuple([z.string(), z.string(), z.boolean()]))),
});

/** See `keptSecretsSchema`. */
export type KeptSecrets = z.output<typeof keptSecretsSchema>;

/** A frozen set. */
export interface KnownSet {
  readonly id: string | null;
  readonly known: KnownValues;
  /** Lines of those that have several, made ready at the first call. */
  readonly lines: () => readonly KnownValues[];
}

/** Stands before the names of granted secrets, as the reference's clients know it. */
const GRANTED_WORD = 'REDACTED_SECRET';

/** What is used longest ago is forgotten beyond these: making a set ready takes time in proportion, and nothing else runs. */
export const MOST_VALUES = 200;
const MOST_BYTES = 64 * 1024;
/** Of one value. */
export const MOST_VALUE_BYTES = 16 * 1024;
/** The redactor may hold so much back, which the runner then keeps. */
const MOST_HELD = spoolBytes / 2;
/** Of all sets as they are kept: what else the supervisor keeps of a session has its room beside them. */
const MOST_KEPT_BYTES = 448 * 1024;
/** Of an entry, beside its name and its value. */
const ENTRY_BYTES = 16;

const NOTHING: KnownSet = { id: null, known: new KnownValues({}), lines: () => [] };

interface Held {
  readonly set: KnownSet;
  readonly entries: readonly Entry[];
  execs: number;
  /** The set before it, for as long as the next process would not find this one. */
  before: Held | null;
}

/** The values of one session. */
export class KnownSecrets {
  readonly #sets = new Map<string, Held>();
  #current: Held = nothingHeld();
  #count = 0;

  /** Those of an earlier process; Base64 keeps their text from growing. */
  constructor(kept?: KeptSecrets) {
    for (const [id, values] of Object.entries(kept?.sets ?? {})) {
      const entries = values.map(
        ([name, value, isGranted]) => [name, Buffer.from(value, 'base64').toString(), isGranted] as const,
      );
      const held = { set: { id, ...prepared(entries) }, entries, execs: 0, before: null };
      this.#sets.set(id, held);
      this.#count = Math.max(this.#count, Number(id));
      if (id === kept?.current) this.#current = held;
    }
  }

  /**
   * The set with these values, by variable, and whether it has to be saved before anything shows them: `saved` or `withdraw`
   * says what came of that. `labels` are the names of granted secrets. Errors: `invalid_request`, `capacity`.
   */
  with(
    values: Readonly<Record<string, string>> | undefined,
    labels?: Readonly<Record<string, string>>,
  ): { readonly set: KnownSet; readonly isNew: boolean } {
    const added = Object.entries(values ?? {}).map(
      ([name, value]): Entry => [labels?.[name] ?? name, value, labels !== undefined],
    );
    const known = new Set(this.#current.entries.map(([, value]) => value));
    const { set: present, before } = this.#current;
    // Another call may be saving it.
    if (added.every(([, value]) => known.has(value))) return { set: present, isNew: before !== null };
    const entries = bounded([...this.#current.entries, ...added], added.length);
    this.#checkRoom(entries);
    const set = { id: String(this.#count + 1), ...prepared(entries) };
    this.#count += 1;
    const replaced = this.#current;
    this.#current = { set, entries, execs: 0, before: replaced };
    this.#sets.set(set.id, this.#current);
    this.#dropUnused(replaced);
    return { set, isNew: true };
  }

  /** The next process will find the set. */
  saved({ id }: KnownSet): void {
    const held = id === null ? undefined : this.#sets.get(id);
    if (held !== undefined) held.before = null;
  }

  /** The set could not be saved: it is as if nobody had asked for it, unless another call has saved it. */
  withdraw({ id }: KnownSet): void {
    const { set, before } = this.#current;
    if (set.id !== id || before === null) return;
    this.#current = before;
    if (before.set.id !== null) this.#sets.set(before.set.id, before);
  }

  /** Those of now. */
  get known(): KnownValues {
    return this.#current.set.known;
  }

  /** Lines of those that have several. */
  get lines(): readonly KnownValues[] {
    return this.#current.set.lines();
  }

  /** No value at all. */
  get none(): KnownSet {
    return NOTHING;
  }

  /** The frozen set of a found record; `null` where it is gone with an earlier supervisor. */
  find(id: string | null): KnownSet | null {
    return id === null ? NOTHING : (this.#sets.get(id)?.set ?? null);
  }

  /** An exec needs the set until `release`. */
  hold(set: KnownSet): void {
    const held = set.id === null ? undefined : this.#sets.get(set.id);
    if (held !== undefined) held.execs += 1;
  }

  release(set: KnownSet): void {
    const held = set.id === null ? undefined : this.#sets.get(set.id);
    if (held === undefined) return;
    held.execs -= 1;
    this.#dropUnused(held);
  }

  /** Forgets all that no running exec holds. */
  clear(): void {
    this.#current = nothingHeld();
    for (const held of this.#sets.values()) this.#dropUnused(held);
  }

  kept(): KeptSecrets {
    const sets: KeptSecrets['sets'] = {};
    for (const [id, held] of this.#sets) {
      if (held.execs > 0 || held === this.#current) {
        sets[id] = held.entries.map(([name, value, isGranted]) => [
          name,
          Buffer.from(value).toString('base64'),
          isGranted,
        ]);
      }
    }
    return { current: this.#current.set.id, sets };
  }

  #dropUnused({ set: { id }, execs }: Held): void {
    if (id !== null && execs <= 0 && id !== this.#current.set.id) this.#sets.delete(id);
  }

  /** Beside the sets that commands which run still need. */
  #checkRoom(entries: readonly Entry[]): void {
    let bytes = keptBytes(entries);
    for (const held of this.#sets.values()) if (held.execs > 0) bytes += keptBytes(held.entries);
    if (bytes <= MOST_KEPT_BYTES) return;
    throw new BoxkiteError('capacity', 'commands that run need too many other secret values to be kept', {
      hint: 'Wait until some of them have ended, or use fewer or shorter secrets.',
      details: { field: 'secret_env', limit: MOST_KEPT_BYTES, bytes },
    });
  }
}

function nothingHeld(): Held {
  return { set: NOTHING, entries: [], execs: 0, before: null };
}

/** Of a set as JSON has it. */
function keptBytes(entries: readonly Entry[]): number {
  let bytes = 0;
  for (const [name, value] of entries) {
    bytes += Buffer.byteLength(JSON.stringify(name)) + Math.ceil(Buffer.byteLength(value) / 3) * 4 + ENTRY_BYTES;
  }
  return bytes;
}

/** The newest entries within the bounds; each value once. */
function bounded(entries: readonly Entry[], least: number): readonly Entry[] {
  const newest = new Map<string, Entry>();
  let bytes = 0;
  for (const [index, entry] of [...entries].reverse().entries()) {
    const [, value] = entry;
    if (newest.has(value)) continue;
    const length = Buffer.byteLength(value);
    if (length > MOST_VALUE_BYTES) throw tooMuch(`${MOST_VALUE_BYTES} bytes a value`);
    bytes += length;
    if (newest.size >= MOST_VALUES || bytes > MOST_BYTES) {
      if (index >= least) break;
      throw tooMuch(`${MOST_VALUES} values, ${MOST_BYTES} bytes in all`);
    }
    newest.set(value, entry);
  }
  return [...newest.values()].reverse();
}

function prepared(entries: readonly Entry[]): Pick<KnownSet, 'known' | 'lines'> {
  const byName = new Map<string, string>();
  const granted = new Set<string>();
  for (const [name, value, isGranted] of entries) {
    let label = name;
    for (let number = 2; byName.has(label); number += 1) label = `${name}.${number}`;
    byName.set(label, value);
    if (isGranted) granted.add(label);
  }
  const wordOf = (name: string): string | undefined => (granted.has(name) ? GRANTED_WORD : undefined);
  const known = new KnownValues(byName, { wordOf });
  const span = known.tables('utf8')?.maxSpan ?? 0;
  if (span > MOST_HELD) throw tooMuch('a value is too long to be found wherever it is spelled in other ways');
  let lines: readonly KnownValues[] | null = null;
  return { known, lines: () => (lines ??= knownLines(byName, wordOf)) };
}

function tooMuch(limit: string): BoxkiteError {
  return new BoxkiteError('invalid_request', `the secret values are more than can be hidden: ${limit}`, {
    details: { field: 'secret_env' },
  });
}
