/** A process whose streams are kept, and which gets the signals that a test sends. */
import { PassThrough } from 'node:stream';
import { runCli } from '../../src/cli.ts';
import type { CommandIo } from '../../src/io.ts';
import type { Services } from '../../src/services.ts';

type Listener = (signal: NodeJS.Signals) => void;

/** What a fake process is. */
export interface FakeIoOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Descriptors that are terminals. */
  readonly terminals?: readonly (0 | 1 | 2)[];
  readonly stdinEmpty?: boolean;
  readonly size?: { columns: number; rows: number };
}

export class FakeIo implements CommandIo {
  readonly env: Readonly<Record<string, string>>;
  readonly input = new PassThrough();
  readonly output = new PassThrough();
  readonly errors = new PassThrough();
  readonly stdinEmpty: boolean;
  readonly rawModes: boolean[] = [];
  size: { columns: number; rows: number };
  readonly #terminals: ReadonlySet<number>;
  readonly #listeners = new Map<Listener, readonly NodeJS.Signals[]>();
  #out = '';
  #err = '';

  constructor(options: FakeIoOptions = {}) {
    this.env = options.env ?? {};
    this.#terminals = new Set(options.terminals ?? []);
    this.stdinEmpty = options.stdinEmpty ?? true;
    this.size = options.size ?? { columns: 80, rows: 24 };
    this.output.on('data', (chunk: Buffer) => (this.#out += chunk.toString('latin1')));
    this.errors.on('data', (chunk: Buffer) => (this.#err += chunk.toString('utf8')));
  }

  get terminal(): boolean {
    return this.isTerminal(0) && this.isTerminal(1);
  }

  isTerminal(descriptor: 0 | 1 | 2): boolean {
    return this.#terminals.has(descriptor);
  }

  stdin(): PassThrough {
    return this.input;
  }

  stdout(): PassThrough {
    return this.output;
  }

  stderr(): PassThrough {
    return this.errors;
  }

  async written(): Promise<Error | null> {
    return this.output.errored;
  }

  terminalSize(): { readonly columns: number; readonly rows: number } {
    return this.size;
  }

  setRawMode(raw: boolean): void {
    this.rawModes.push(raw);
  }

  onSignal(signals: readonly NodeJS.Signals[], listener: Listener): () => void {
    this.#listeners.set(listener, signals);
    return () => void this.#listeners.delete(listener);
  }

  send(signal: NodeJS.Signals): void {
    for (const [listener, signals] of this.#listeners) if (signals.includes(signal)) listener(signal);
  }

  get listening(): number {
    return this.#listeners.size;
  }

  /** What was written to standard output, as UTF-8. */
  get out(): string {
    return Buffer.from(this.#out, 'latin1').toString('utf8');
  }

  get outBytes(): Buffer {
    return Buffer.from(this.#out, 'latin1');
  }

  get err(): string {
    return this.#err;
  }
}

/** Services with this server, or none. */
export function services(server: Awaited<ReturnType<Services['findServer']>>): Services {
  return {
    findServer: async () => server,
    privateProvider: async () => {
      throw new Error('this test needs no private provider');
    },
  };
}

/** The outcome of one call of the command line. */
export interface Outcome {
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

/** Runs the command line to its end. */
export async function call(args: readonly string[], given: Services, io: FakeIo = new FakeIo()): Promise<Outcome> {
  const status = await runCli(args, io, given);
  return { status, out: io.out, err: io.err };
}
