import {
  binary,
  type Code,
  constant,
  get,
  give,
  load8,
  load16,
  loopWhile,
  set,
  sum,
  type WasmFunction,
  when,
} from '../wasm-assembler.ts';

/** Address of a byte for each pair of bytes. */
export const PAIRS_AT = 0;
/** Address of a byte for each three of the lowest five bits of bytes. */
export const TRIPLES_AT = 1 << 16;
/** Address of the text. */
export const TEXT_AT = TRIPLES_AT + (1 << 15);
/** Bytes behind the text that may be read. */
export const READ_AHEAD = 16;

/** Pairs that are looked at together. */
const UNROLLED = 8;

/** The number of three bytes that stand at an address. */
function triple(address: Code): Code {
  const bits = (offset: number, shift: number): Code =>
    binary('shiftLeft', binary('and', load8(sum(address, constant(offset))), constant(31)), constant(shift));
  return binary('or', binary('or', bits(0, 10), bits(1, 5)), bits(2, 0));
}

const pairFlag = (address: Code): Code => load8(load16(address));
const tripleFlag = (address: Code): Code => load8(sum(triple(address), constant(TRIPLES_AT)));

/**
 * `(at, end)` → the first address from `at` on, in steps of two, at which a pair of the table stands whose neighbour makes
 * three of the table with it; `end` or more where there is none. `at - 1` is read too.
 */
export function pairProgram(): WasmFunction[] {
  const [at, end] = [0, 1];
  const whole = 2 * UNROLLED;
  const any = Array.from({ length: UNROLLED }, (_, index) => pairFlag(sum(get(at), constant(2 * index)))).reduce(
    (one, two) => binary('or', one, two),
  );
  const one = [
    ...when(
      pairFlag(get(at)),
      when(binary('or', tripleFlag(get(at)), tripleFlag(binary('subtract', get(at), constant(1)))), give(get(at))),
    ),
    ...set(at, sum(get(at), constant(2))),
  ];
  const body = loopWhile(
    binary('lessUnsigned', get(at), get(end)),
    // Whole stretches without any pair first.
    loopWhile(
      binary('and', binary('lessUnsigned', sum(get(at), constant(whole)), get(end)), binary('equal', any, constant(0))),
      set(at, sum(get(at), constant(whole))),
    ),
    ...Array.from({ length: UNROLLED }, () => when(binary('lessUnsigned', get(at), get(end)), one)),
  );
  return [{ parameters: 2, locals: 2, body: [...body, ...get(at)] }];
}
