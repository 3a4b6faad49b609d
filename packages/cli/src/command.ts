/** What a command is, and the frame that every one runs in: options, help, errors for people and for programs. */
import type { ServerPort } from '@boxkite/protocol';
import { EXIT, exitStatusOf } from './exit-status.ts';
import { Interrupts } from './interrupts.ts';
import type { CommandIo } from './io.ts';
import { OptionValues } from './option-values.ts';
import type { OptionTable, ParsedArguments } from './options.ts';
import { describeOptions, mistake, parseOptions } from './options.ts';
import { describeError, errorBody } from './report-error.ts';
import type { Services } from './services.ts';
import { requireServer } from './services.ts';
import type { Paint } from './style.ts';
import { paintFor } from './style.ts';

/** A command by its words after the name; the result is its exit status. */
export type Command = (args: readonly string[], io: CommandIo, services: Services) => Promise<number>;

/** One plain word of a command. */
export interface Word {
  readonly name: string;
  readonly optional?: boolean;
  /** The last word may come several times. */
  readonly repeated?: boolean;
}

/** The definition of a command; the help is made from it. */
export interface CommandSpec<T extends OptionTable> {
  /** As it is written after `boxkite`. */
  readonly name: string;
  readonly words?: readonly Word[];
  /** The program to run follows the words. */
  readonly program?: boolean;
  /** What it does, in lines of at most 100 characters. */
  readonly about: string;
  readonly options: T;
  /** Lines that a person could type, each with what it does. */
  readonly examples: readonly (readonly [line: string, meaning: string])[];
  /** Last lines of the help. */
  readonly notes?: string;
  run(call: Call<T>): Promise<number>;
}

/** `--json` and `--help`, which come last in a table. */
export const commonOptions = {
  json: { value: null, help: 'print JSON as the only thing on standard output' },
  help: { value: null, help: 'show this text' },
} as const satisfies OptionTable;

/** One call of a command. */
export class Call<T extends OptionTable> {
  readonly io: CommandIo;
  readonly services: Services;
  readonly options: OptionValues<T>;
  readonly words: readonly string[];
  readonly program: readonly string[];
  readonly json: boolean;
  #interrupts: Interrupts | null = null;
  #server: Promise<ServerPort> | null = null;

  constructor(
    io: CommandIo,
    services: Services,
    table: T,
    parsed: ParsedArguments,
    words: readonly string[],
    program: readonly string[],
  ) {
    this.io = io;
    this.services = services;
    this.options = new OptionValues(table, parsed);
    this.words = words;
    this.program = program;
    this.json = parsed.values.has('json');
  }

  /** The daemon. Errors: `daemon_unreachable`. */
  server(): Promise<ServerPort> {
    this.#server ??= requireServer(this.services, this.io);
    return this.#server;
  }

  /** Takes over Ctrl-C and its kind from the first use on; without it they end the program at once. */
  get interrupts(): Interrupts {
    this.#interrupts ??= new Interrupts(this.io);
    return this.#interrupts;
  }

  /** 128 + the number of the signal that ended the call, or `null`. */
  get interruptedStatus(): number | null {
    return this.#interrupts?.exitStatus ?? null;
  }

  print(text: string): void {
    this.io.stdout().write(`${text}\n`);
  }

  printJson(value: unknown): void {
    this.io.stdout().write(`${JSON.stringify(value, null, 2)}\n`);
  }

  /** Prints what can't be asked for again; where nobody gets it, `otherwise` is said and `false` returned. */
  async printOnce(text: string, json: unknown, otherwise: string): Promise<boolean> {
    if (this.json) this.printJson(json);
    else this.print(text);
    const printed = (await this.io.written()) === null;
    if (!printed) this.say(otherwise);
    return printed;
  }

  say(text: string): void {
    this.io.stderr().write(`boxkite: ${text}\n`);
  }

  /** An error that doesn't end the call. */
  complain(error: unknown): void {
    this.io.stderr().write(describeError(error));
  }

  /** Colours for standard output. */
  get paint(): Paint {
    return paintFor(this.io, 1);
  }

  /** Columns of the terminal on standard output; `null` for a pipe or file, where nothing is cut. */
  get width(): number | null {
    return this.io.isTerminal(1) ? this.io.terminalSize().columns : null;
  }

  async close(): Promise<void> {
    this.#interrupts?.stop();
    const server = await this.#server?.catch((): null => null);
    await server?.close();
  }
}

/** A command that prints its help, keeps errors in shape and lets go of what it used. */
export function defineCommand<const T extends OptionTable>(spec: CommandSpec<T>): Command {
  return async (args, io, services) => {
    const words = spec.words ?? [];
    const parsed = parseOptions(spec.options, args, spec.name, most(spec));
    if (parsed.values.has('help')) {
      io.stdout().write(helpOf(spec));
      return EXIT.ok;
    }
    const given = spec.program === true ? parsed.words : [...parsed.words, ...parsed.rest];
    const call = new Call(io, services, spec.options, parsed, given, spec.program === true ? parsed.rest : []);
    try {
      checkWords(spec.name, words, given);
      return await spec.run(call);
    } catch (error) {
      const interrupted = call.interruptedStatus;
      if (interrupted !== null) return interrupted;
      if (call.json) call.printJson(errorBody(error));
      call.complain(error);
      return exitStatusOf(error);
    } finally {
      await call.close();
    }
  };
}

function most(spec: CommandSpec<OptionTable>): number {
  return spec.program === true ? (spec.words?.length ?? 0) : Number.POSITIVE_INFINITY;
}

function checkWords(command: string, words: readonly Word[], given: readonly string[]): void {
  const see = `See \`boxkite ${command} --help\`.`;
  const missing = words[given.length];
  if (missing !== undefined && missing.optional !== true) throw mistake(`no ${missing.name} is given`, see);
  if (given.includes('')) throw mistake('an empty word is given', see);
  const superfluous = words.at(-1)?.repeated === true ? undefined : given[words.length];
  if (superfluous !== undefined) throw mistake(`there is one word too many: ${superfluous}`, see);
}

function helpOf(spec: CommandSpec<OptionTable>): string {
  const words = (spec.words ?? []).map(({ name, optional, repeated }) => {
    const text = repeated === true ? `${name}...` : name;
    return optional === true ? `[${text}]` : text;
  });
  const synopsis = [
    'boxkite',
    spec.name,
    '[OPTIONS]',
    ...words,
    ...(spec.program === true ? ['-- COMMAND [ARGUMENT...]'] : []),
  ];
  const width = Math.max(...spec.examples.map(([line]) => line.length));
  const examples = spec.examples.map(([line, meaning]) => `  ${line.padEnd(width)}  # ${meaning}`);
  const parts = [
    `Usage: ${synopsis.join(' ')}`,
    spec.about,
    `Options:\n${describeOptions(spec.options)}`,
    ...(examples.length > 0 ? [`Examples:\n${examples.join('\n')}`] : []),
    ...(spec.notes === undefined ? [] : [spec.notes]),
  ];
  return `${parts.join('\n\n')}\n`;
}
