/** Random input for a decision, and what must hold of every answer. */
export interface FuzzTarget {
  readonly name: string;
  /** Makes one input and checks it; throws with the input in the message. */
  once(random: () => number): void;
}

/** A sequence of numbers in [0, 1) that a seed determines. */
export function sequence(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** One of a list. */
export function pick<T>(random: () => number, list: readonly T[]): T {
  const chosen = list[Math.floor(random() * list.length)];
  if (chosen === undefined) throw new Error('nothing to choose from');
  return chosen;
}

/** Parts of a list in a row, and now and then characters that nobody expects. */
export function mixture(random: () => number, parts: readonly string[], most: number): string {
  let text = '';
  for (let count = Math.floor(random() * most); count > 0; count -= 1) {
    text +=
      random() < 0.9
        ? pick(random, parts)
        : String.fromCharCode(Math.floor(random() * (random() < 0.8 ? 128 : 65_536)));
  }
  return text;
}

/** Fails with the input. */
export function require(holds: boolean, what: string, input: unknown): void {
  if (!holds) throw new Error(`${what}: ${JSON.stringify(input)}`);
}
