import { BLANK_CLASS, CLASS_BITS, CLASS_COUNT, CLASS_OF } from './fold.ts';
import { KnownValuesError } from './known-limits.ts';
import type { KnownPattern } from './known-pattern.ts';

const FIRST_SIZE = 4096;

/**
 * Aho-Corasick automaton over the classes of `fold.ts`, white space left out on both sides. Node 0 is the root. A node
 * with one child has it right behind itself (`symbol[node + 1]`); a node with more has a row of `rows`. That keeps a
 * long chain at a few bytes a node.
 */
export interface KnownAutomaton {
  readonly symbol: Uint8Array;
  /** Number of the node's row, 0 for none. */
  readonly row: Int32Array;
  readonly rows: Int32Array;
  readonly fail: Int32Array;
  readonly depth: Int32Array;
  /** First node on the failure chain, the node itself included, where a pattern ends; 0 for none. */
  readonly ending: Int32Array;
  /** First pattern that ends in the node, plus one; `nextPattern` links further ones in the same way. */
  readonly patternAt: Int32Array;
  readonly nextPattern: Int32Array;
  readonly patterns: readonly KnownPattern[];
  readonly maxDepth: number;
}

/** Child of `node` by `symbol`, 0 if there is none. */
function childOf(automaton: KnownAutomaton, node: number, symbol: number): number {
  const row = automaton.row[node] as number;
  if (row !== 0) return automaton.rows[(row << CLASS_BITS) | symbol] as number;
  return automaton.symbol[node + 1] === symbol ? node + 1 : 0;
}

/** State after `symbol`: the longest beginning of a pattern that the text read so far ends in. */
export function nextState(automaton: KnownAutomaton, state: number, symbol: number): number {
  let from = state;
  for (;;) {
    const child = childOf(automaton, from, symbol);
    if (child !== 0 || from === 0) return child;
    from = automaton.fail[from] as number;
  }
}

/** Builds an automaton, pattern by pattern. */
export class AutomatonBuilder {
  readonly #limit: number;
  readonly #patterns: KnownPattern[] = [];
  readonly #nextPattern: number[] = [];
  #symbol = new Uint8Array(FIRST_SIZE);
  #row = new Int32Array(FIRST_SIZE);
  #depth = new Int32Array(FIRST_SIZE);
  #patternAt = new Int32Array(FIRST_SIZE);
  #rows = new Int32Array(CLASS_COUNT * 16);
  #rowCount = 1;
  #nodeCount = 1;
  #maxDepth = 0;

  /** @param limit Greatest number of nodes. */
  constructor(limit: number) {
    this.#limit = limit;
    this.#addRow(0);
  }

  /** Adds a pattern, which holds at least one character that is not white space. @throws KnownValuesError at the limit. */
  add(pattern: KnownPattern): void {
    let node = 0;
    for (let at = 0; at < pattern.low.length; at += 1) {
      const symbol = CLASS_OF[pattern.low.charCodeAt(at)] as number;
      if (symbol <= BLANK_CLASS) continue;
      node = this.#child(node, symbol) || this.#addChild(node, symbol);
    }
    this.#maxDepth = Math.max(this.#maxDepth, this.#depth[node] as number);
    this.#nextPattern.push(this.#patternAt[node] as number);
    this.#patterns.push(pattern);
    this.#patternAt[node] = this.#patterns.length;
  }

  /** The automaton for all patterns added. */
  build(): KnownAutomaton {
    const count = this.#nodeCount;
    const automaton = {
      symbol: this.#symbol.slice(0, count + 1),
      row: this.#row.slice(0, count),
      rows: this.#rows.slice(0, this.#rowCount * CLASS_COUNT),
      fail: new Int32Array(count),
      depth: this.#depth.slice(0, count),
      ending: new Int32Array(count),
      patternAt: this.#patternAt.slice(0, count),
      nextPattern: Int32Array.from(this.#nextPattern),
      patterns: this.#patterns,
      maxDepth: this.#maxDepth,
    };
    linkFailures(automaton);
    return automaton;
  }

  /** Keeps room for one symbol behind the last node. */
  #makeRoom(): void {
    if (this.#nodeCount >= this.#limit) {
      throw new KnownValuesError(`The encoded forms of the known values exceed ${this.#limit} characters together`);
    }
    if (this.#nodeCount + 2 <= this.#symbol.length) return;
    const size = this.#symbol.length * 2;
    const symbol = new Uint8Array(size);
    symbol.set(this.#symbol);
    this.#symbol = symbol;
    this.#row = enlarged(this.#row, size);
    this.#depth = enlarged(this.#depth, size);
    this.#patternAt = enlarged(this.#patternAt, size);
  }

  #child(node: number, symbol: number): number {
    const row = this.#row[node] as number;
    if (row !== 0) return this.#rows[(row << CLASS_BITS) | symbol] as number;
    return this.#symbol[node + 1] === symbol ? node + 1 : 0;
  }

  /** A node that is not made right behind its parent keeps symbol 0, so that nobody takes it for the parent's chain. */
  #addChild(node: number, symbol: number): number {
    this.#makeRoom();
    const child = this.#nodeCount;
    this.#nodeCount += 1;
    this.#depth[child] = (this.#depth[node] as number) + 1;
    if (child === node + 1 && this.#row[node] === 0) {
      this.#symbol[child] = symbol;
      return child;
    }
    if (this.#row[node] === 0) this.#addRow(node);
    this.#rows[((this.#row[node] as number) << CLASS_BITS) | symbol] = child;
    return child;
  }

  #addRow(node: number): void {
    const row = this.#rowCount;
    this.#rowCount += 1;
    if (this.#rowCount * CLASS_COUNT > this.#rows.length) this.#rows = enlarged(this.#rows, this.#rows.length * 2);
    this.#row[node] = row;
    const chained = this.#symbol[node + 1] as number;
    if (chained !== 0) this.#rows[(row << CLASS_BITS) | chained] = node + 1;
  }
}

function enlarged(from: Int32Array, size: number): Int32Array<ArrayBuffer> {
  const array = new Int32Array(size);
  array.set(from);
  return array;
}

/** Fills `fail` and `ending`, breadth first: the links of shorter beginnings are there before longer ones need them. */
function linkFailures(automaton: KnownAutomaton): void {
  const { symbol, row, rows, fail, ending, patternAt } = automaton;
  const queue = new Int32Array(fail.length);
  let queued = 1;
  const visit = (parent: number, child: number, by: number): void => {
    const link = parent === 0 ? 0 : nextState(automaton, fail[parent] as number, by);
    fail[child] = link;
    ending[child] = patternAt[child] !== 0 ? child : (ending[link] as number);
    queue[queued] = child;
    queued += 1;
  };
  for (let at = 0; at < queued; at += 1) {
    const node = queue[at] as number;
    const first = (row[node] as number) << CLASS_BITS;
    if (first === 0) {
      if (symbol[node + 1] !== 0) visit(node, node + 1, symbol[node + 1] as number);
      continue;
    }
    for (let by = 0; by < CLASS_COUNT; by += 1) {
      const child = rows[first | by] as number;
      if (child !== 0) visit(node, child, by);
    }
  }
}
