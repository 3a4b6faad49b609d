import { assemble, type WasmFunction } from './wasm-assembler.ts';

/** What is used of WebAssembly. Declared here, since it is in the types of neither ECMAScript nor Node. */
interface WebAssemblyApi {
  readonly Module: new (bytes: Uint8Array<ArrayBuffer>) => object;
  readonly Instance: new (module: object) => { readonly exports: WasmExports };
}

/** What a module of `assemble` has. */
export interface WasmExports {
  readonly memory: { readonly buffer: ArrayBuffer; grow(pages: number): number };
  readonly main: (one: number, two: number) => number;
}

declare const WebAssembly: WebAssemblyApi | undefined;

/** Bytes of a page of memory. */
export const WASM_PAGE = 65_536;

/** An instance of a module, or `undefined` where there is no WebAssembly with vectors or none may be compiled. */
export function instantiate(functions: readonly WasmFunction[], bytes: number): WasmExports | undefined {
  if (typeof WebAssembly === 'undefined') return undefined;
  try {
    const module = new WebAssembly.Module(assemble(functions, Math.ceil(bytes / WASM_PAGE)));
    return new WebAssembly.Instance(module).exports;
  } catch {
    // A content security policy forbids it, an old engine does not know an instruction, or there is no memory left.
    return undefined;
  }
}
