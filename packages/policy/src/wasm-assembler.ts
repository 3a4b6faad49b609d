/**
 * Writes small WebAssembly modules: one memory, functions from 32-bit integers to one. Code is a list of bytes that
 * leaves its value on the stack; each function here stands for one instruction or one construct.
 */
export type Code = readonly number[];

const OPCODES = {
  unreachable: 0x00,
  block: 0x02,
  loop: 0x03,
  if: 0x04,
  end: 0x0b,
  branch: 0x0c,
  branchIf: 0x0d,
  return: 0x0f,
  call: 0x10,
  localGet: 0x20,
  localSet: 0x21,
  load32: 0x28,
  load8: 0x2d,
  load16: 0x2f,
  constant: 0x41,
  isZero: 0x45,
  equal: 0x46,
  lessUnsigned: 0x49,
  countTrailingZeros: 0x68,
  add: 0x6a,
  subtract: 0x6b,
  multiply: 0x6c,
  and: 0x71,
  or: 0x72,
  shiftLeft: 0x74,
  shiftRightUnsigned: 0x76,
  vector: 0xfd,
} as const;
/** Second byte of the instructions on 16 bytes. */
const VECTOR_OPCODES = { load: 0x00, splatBytes: 0x0f, equalBytes: 0x23, bitmask: 0x64 } as const;

const NO_RESULT = 0x40;
const INTEGER = 0x7f;
const FUNCTION = 0x60;
const SECTIONS = { types: 1, functions: 3, memory: 5, exports: 7, code: 10 } as const;
const EXPORTED_FUNCTION = 0;
const EXPORTED_MEMORY = 2;

/** A function of a module; the first `parameters` locals are its arguments, all are 32-bit integers. */
export interface WasmFunction {
  readonly parameters: number;
  readonly locals: number;
  readonly body: Code;
}

type Binary =
  | 'equal'
  | 'lessUnsigned'
  | 'add'
  | 'subtract'
  | 'multiply'
  | 'and'
  | 'or'
  | 'shiftLeft'
  | 'shiftRightUnsigned';

/** The instruction `operation` on two values. */
export function binary(operation: Binary, one: Code, two: Code): Code {
  return [...one, ...two, OPCODES[operation]];
}

/** The sum of values. */
export function sum(first: Code, ...rest: Code[]): Code {
  return rest.reduce((total, value) => binary('add', total, value), first);
}

/** A constant of 32 bits. */
export function constant(value: number): Code {
  return [OPCODES.constant, ...signedLeb(value | 0)];
}

/** The value of a local. */
export function get(local: number): Code {
  return [OPCODES.localGet, ...leb(local)];
}

/** Sets a local. */
export function set(local: number, value: Code): Code {
  return [...value, OPCODES.localSet, ...leb(local)];
}

/** The byte at an address. */
export function load8(address: Code): Code {
  return [...address, OPCODES.load8, 0, 0];
}

/** Two bytes from an address of any alignment, the first one lowest. */
export function load16(address: Code): Code {
  return [...address, OPCODES.load16, 0, 0];
}

/** Four bytes from an address of any alignment, the first one lowest. */
export function load32(address: Code): Code {
  return [...address, OPCODES.load32, 0, 0];
}

/** Bit n tells whether the n-th of sixteen bytes from an address is `byte`. */
export function equalBytes(address: Code, byte: number): Code {
  return [
    ...[...address, OPCODES.vector, VECTOR_OPCODES.load, 0, 0],
    ...[...constant(byte), OPCODES.vector, VECTOR_OPCODES.splatBytes],
    ...[OPCODES.vector, VECTOR_OPCODES.equalBytes, OPCODES.vector, ...leb(VECTOR_OPCODES.bitmask)],
  ];
}

/** Number of the lowest bit that is set. */
export function lowestBit(value: Code): Code {
  return [...value, OPCODES.countTrailingZeros];
}

/** 1 for 0, else 0. */
export function not(value: Code): Code {
  return [...value, OPCODES.isZero];
}

/** Calls the function with this number in the module. */
export function call(index: number, ...values: Code[]): Code {
  return [...values.flat(), OPCODES.call, ...leb(index)];
}

/** Returns from the function. */
export function give(value: Code): Code {
  return [...value, OPCODES.return];
}

/** Statements for a condition that is not 0. */
export function when(condition: Code, ...statements: Code[]): Code {
  return [...condition, OPCODES.if, NO_RESULT, ...statements.flat(), OPCODES.end];
}

/** Repeats statements while the condition is not 0. */
export function loopWhile(condition: Code, ...statements: Code[]): Code {
  const body = [...not(condition), OPCODES.branchIf, 1, ...statements.flat(), OPCODES.branch, 0, OPCODES.end];
  return [OPCODES.block, NO_RESULT, OPCODES.loop, NO_RESULT, ...body, OPCODES.end];
}

/** Repeats statements until one of them returns from the function; ends the function's code. */
export function loopForever(...statements: Code[]): Code {
  return [OPCODES.loop, NO_RESULT, ...statements.flat(), OPCODES.branch, 0, OPCODES.end, OPCODES.unreachable];
}

/** The bytes of a module with the functions, the last of them exported as `main`, and a memory exported as `memory`. */
export function assemble(functions: readonly WasmFunction[], pages: number): Uint8Array<ArrayBuffer> {
  const types = functions.map(({ parameters }) => [
    FUNCTION,
    ...counted(Array.from({ length: parameters }, () => [INTEGER])),
    ...counted([[INTEGER]]),
  ]);
  const exports = [
    [...name('main'), EXPORTED_FUNCTION, ...leb(functions.length - 1)],
    [...name('memory'), EXPORTED_MEMORY, 0],
  ];
  const code = functions.map(({ parameters, locals, body }) => {
    const whole = [1, ...leb(locals - parameters), INTEGER, ...body, OPCODES.end];
    return [...leb(whole.length), ...whole];
  });
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(SECTIONS.types, types),
    ...section(
      SECTIONS.functions,
      functions.map((_, index) => leb(index)),
    ),
    ...section(SECTIONS.memory, [[0, ...leb(pages)]]),
    ...section(SECTIONS.exports, exports),
    ...section(SECTIONS.code, code),
  ]);
}

function section(id: number, items: readonly Code[]): number[] {
  const body = counted(items);
  return [id, ...leb(body.length), ...body];
}

function counted(items: readonly Code[]): number[] {
  return [...leb(items.length), ...items.flat()];
}

function name(text: string): number[] {
  return [...leb(text.length), ...Array.from(text, (character) => character.charCodeAt(0))];
}

/** LEB128, seven bits a byte, of a number that is not negative. */
function leb(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...leb(value >>> 7)];
}

function signedLeb(value: number): number[] {
  const bits = value & 0x7f;
  const rest = value >> 7;
  const last = rest === (bits & 0x40 ? -1 : 0);
  return last ? [bits] : [bits | 0x80, ...signedLeb(rest)];
}
