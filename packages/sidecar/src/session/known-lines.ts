/** Single lines of secret values that have several: a search shows a line without the others. */
import { KNOWN_VALUE_LIMITS, KnownValues } from '@boxkite/policy';

/** Bytes of a line that says something about its value. */
const SHORTEST_LINE = 16;
/** What stands around a key says nothing about it. */
const BOUNDARY = /^-----(?:BEGIN|END) [A-Z0-9 ]+-----$/;

/** The lines of values by their names, in as many sets as it takes. */
export function knownLines(
  values: ReadonlyMap<string, string>,
  wordOf: (name: string) => string | undefined,
): readonly KnownValues[] {
  const lines = new Map<string, string>();
  const owners = new Map<string, string>();
  for (const [name, value] of values) {
    const all = value.trim().split(/\r?\n|\r/);
    if (all.length < 2) continue;
    for (const [index, text] of all.entries()) {
      const line = text.trim();
      if (Buffer.byteLength(line) < SHORTEST_LINE || BOUNDARY.test(line)) continue;
      const label = `${name}.line-${index + 1}`;
      lines.set(label, line);
      owners.set(label, name);
    }
  }
  const sets: KnownValues[] = [];
  const entries = [...lines];
  for (let at = 0; at < entries.length; at += KNOWN_VALUE_LIMITS.values) {
    const part = new Map(entries.slice(at, at + KNOWN_VALUE_LIMITS.values));
    sets.push(new KnownValues(part, { wordOf: (label) => wordOf(owners.get(label) ?? label) }));
  }
  return sets;
}
