import { ENTRY, type GramTable, HASH_FACTOR } from './gram-table.ts';
import {
  binary,
  type Code,
  call,
  constant,
  equalBytes,
  get,
  give,
  load8,
  load32,
  loopForever,
  loopWhile,
  lowestBit,
  not,
  set,
  sum,
  type WasmFunction,
  when,
} from './wasm-assembler.ts';

/** Bytes behind the text that `lineBreak` may read. */
export const READ_AHEAD = 16;
/** Bits of the program's result that say how far behind the index the barrier is. */
export const BARRIER_BITS = 5;

const SPACES = [0x20, 0x0a, 0x09, 0x0d];
/** Numbers of the functions in the module. */
const FUNCTIONS = { textFrom: 0, textBefore: 1, skipInLine: 2, lineBreak: 3, mayStraddle: 4 } as const;

/**
 * `skip` of `script-filter.ts`, function by function, with addresses for indices: the table is at address 0, the text
 * anywhere behind it. The result is `index << BARRIER_BITS | barrier - index`: a barrier behind the index is less
 * than `reach` units on, at the end of a line.
 */
export function filterProgram(table: GramTable, lineReach: number): WasmFunction[] {
  return [textFrom(), textBefore(), skipInLine(table), lineBreak(), mayStraddle(table), skip(table, lineReach)];
}

const less = (one: Code, two: Code): Code => binary('lessUnsigned', one, two);
const atLeast = (one: Code, two: Code): Code => not(less(one, two));

/** The table's entry for a word of four units. */
function entryOf({ shift }: GramTable, word: Code): Code {
  return load8(binary('shiftRightUnsigned', binary('multiply', word, constant(HASH_FACTOR)), constant(shift)));
}

/** The entry for the units at four addresses. */
function entryAt(table: GramTable, one: Code, two: Code, three: Code, four: Code): Code {
  const shifted = [one, two, three, four].map((address, index) =>
    binary('shiftLeft', load8(address), constant(8 * index)),
  );
  return entryOf(
    table,
    shifted.reduce((word, unit) => binary('or', word, unit)),
  );
}

function has(entry: Code, flag: number): Code {
  return binary('and', entry, constant(flag));
}

function isSpaceAt(address: Code): Code {
  return SPACES.map((space) => binary('equal', load8(address), constant(space))).reduce((one, two) =>
    binary('or', one, two),
  );
}

function textFrom(): WasmFunction {
  const [from, to] = [0, 1];
  const step = loopWhile(
    less(get(from), get(to)),
    when(not(isSpaceAt(get(from))), give(get(from))),
    set(from, sum(get(from), constant(1))),
  );
  return { parameters: 2, locals: 2, body: [...step, ...get(from)] };
}

function textBefore(): WasmFunction {
  const [from, least] = [0, 1];
  const step = loopWhile(
    atLeast(get(from), get(least)),
    when(not(isSpaceAt(get(from))), give(get(from))),
    set(from, binary('subtract', get(from), constant(1))),
  );
  return { parameters: 2, locals: 2, body: [...step, ...get(from)] };
}

function skipInLine(table: GramTable): WasmFunction {
  const [at, end, entry] = [0, 1, 2];
  const gram = load32(sum(get(at), constant(table.step - 1)));
  const advance = (by: Code): Code => set(at, sum(get(at), by));
  const body = loopWhile(
    atLeast(get(end), sum(get(at), constant(table.reach))),
    set(entry, entryOf(table, gram)),
    loopWhile(
      binary('equal', get(entry), constant(table.step)),
      advance(constant(table.step)),
      when(less(get(end), sum(get(at), constant(table.reach))), give(get(at))),
      set(entry, entryOf(table, gram)),
    ),
    set(entry, has(get(entry), ENTRY.step)),
    when(
      not(get(entry)),
      when(has(entryOf(table, load32(get(at))), ENTRY.starts), give(get(at))),
      set(entry, constant(1)),
    ),
    advance(get(entry)),
  );
  return { parameters: 2, locals: 3, body: [...body, ...get(at)] };
}

function lineBreak(): WasmFunction {
  const [at, to, found] = [0, 1, 2];
  const body = loopWhile(
    less(get(at), get(to)),
    set(found, equalBytes(get(at), 0x0a)),
    when(
      get(found),
      set(at, sum(get(at), lowestBit(get(found)))),
      when(less(get(at), get(to)), give(get(at))),
      give(get(to)),
    ),
    set(at, sum(get(at), constant(16))),
  );
  return { parameters: 2, locals: 3, body: [...body, ...get(to)] };
}

function mayStraddle(table: GramTable): WasmFunction {
  const [from, end, next, to, one, two, third, fourth] = [0, 1, 2, 3, 4, 5, 6, 7];
  const before = (local: number): Code =>
    call(FUNCTIONS.textBefore, binary('subtract', get(local), constant(1)), get(from));
  const behind = (local: number): Code => call(FUNCTIONS.textFrom, sum(get(local), constant(1)), get(to));
  const body = [
    set(one, binary('subtract', get(end), constant(1))),
    when(less(get(one), get(from)), give(constant(0))),
    set(third, behind(next)),
    set(fourth, behind(third)),
    when(atLeast(get(fourth), get(to)), give(constant(1))),
    when(has(entryAt(table, get(one), get(next), get(third), get(fourth)), ENTRY.denseStarts), give(constant(1))),
    set(two, before(one)),
    when(less(get(two), get(from)), give(constant(0))),
    has(entryAt(table, get(two), get(one), get(next), get(third)), ENTRY.dense),
  ];
  return { parameters: 4, locals: 8, body: body.flat() };
}

function skip(table: GramTable, lineReach: number): WasmFunction {
  const [at, length, limit, lineEnd, end, next] = [0, 1, 2, 3, 4, 5];
  const result = (barrier: Code): Code =>
    give(binary('or', binary('shiftLeft', get(at), constant(BARRIER_BITS)), binary('subtract', barrier, get(at))));
  const body = loopForever(
    set(limit, sum(get(at), constant(lineReach))),
    when(less(get(length), get(limit)), set(limit, get(length))),
    set(lineEnd, call(FUNCTIONS.lineBreak, get(at), get(limit))),
    when(
      binary('equal', get(lineEnd), get(limit)),
      set(limit, call(FUNCTIONS.textFrom, get(limit), get(length))),
      set(lineEnd, call(FUNCTIONS.lineBreak, get(lineEnd), get(limit))),
    ),
    set(end, get(lineEnd)),
    when(
      binary('or', less(get(lineEnd), get(limit)), binary('equal', get(limit), get(length))),
      set(end, sum(call(FUNCTIONS.textBefore, binary('subtract', get(lineEnd), constant(1)), get(at)), constant(1))),
    ),
    set(at, call(FUNCTIONS.skipInLine, get(at), get(end))),
    when(atLeast(get(end), sum(get(at), constant(table.reach))), result(get(at))),
    when(
      less(get(lineEnd), get(limit)),
      set(next, call(FUNCTIONS.textFrom, sum(get(lineEnd), constant(1)), get(length))),
      when(call(FUNCTIONS.mayStraddle, get(at), get(end), get(next), get(length)), result(get(end))),
      set(at, get(next)),
      set(limit, constant(0)),
    ),
    when(binary('equal', get(limit), get(length)), result(get(at))),
  );
  return { parameters: 2, locals: 6, body };
}
