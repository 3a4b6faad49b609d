import type { Readable, Writable } from 'node:stream';

/** What a command sees of its process. The composition root fills it; streams are made at first use, since each costs time. */
export interface CommandIo {
  readonly env: Readonly<Record<string, string | undefined>>;
  stdin(): Readable;
  stdout(): Writable;
  stderr(): Writable;
  /** Resolves when all of standard output has left this process, or can't: with what stopped it, else `null`. */
  written(): Promise<Error | null>;
  /** Descriptors 0 and 1 are one terminal each. */
  readonly terminal: boolean;
  /** Descriptor 0 has nothing to give, such as `/dev/null`. */
  readonly stdinEmpty: boolean;
  /** Whether a descriptor of this process is a terminal. */
  isTerminal(descriptor: 0 | 1 | 2): boolean;
  /** Size of the terminal on standard output. */
  terminalSize(): { readonly columns: number; readonly rows: number };
  /** Turns raw mode of the terminal on standard input on or off. */
  setRawMode(raw: boolean): void;
  /** Calls back at each of these signals to this process until the returned function is called. */
  onSignal(signals: readonly NodeJS.Signals[], listener: (signal: NodeJS.Signals) => void): () => void;
}
