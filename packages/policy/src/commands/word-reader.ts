import { skipArithmetic, skipParameter } from './expansion.ts';
import { isControl, quote, Refusal } from './refusal.ts';
import { literalWord, type ShellWord } from './shell-word.ts';

/** A word and where it ends. */
export interface ReadWord {
  readonly word: ShellWord;
  /** Index behind its last character. */
  readonly contentEnd: number;
  /** Index behind it and the line continuations that follow it directly. */
  readonly end: number;
}

/**
 * Reads the word that begins at `from`, as far as it goes. Where the word is empty, both ends are `from`.
 * @throws Refusal for what is live in it and can't be judged.
 */
export function readWord(source: string, from: number): ReadWord {
  // Most words hold nothing that has to be understood.
  const end = plainEnd(source, from);
  if (end > from && (end === source.length || ENDS[source.charCodeAt(end)] === 1)) {
    return { word: literalWord(source.slice(from, end), from), contentEnd: end, end };
  }
  return new WordReader(source, from).read();
}

const BRACE_NONE = 0;
const BRACE_OPEN = 1;
const BRACE_LISTED = 2;

class WordReader {
  readonly #source: string;
  readonly #from: number;
  #at: number;
  #contentEnd: number;
  #text = '';
  #lead: string | undefined;
  #known = true;
  #single = true;
  readonly #split: string[] = [];
  #bare = true;
  /** Unquoted braces: none, one is open, one is open and has a `,` or `..` in it. */
  #brace = BRACE_NONE;
  /** What stands before the first `[`: all that is literal once a `]` makes it a pattern. */
  #bracketLead: string | undefined;
  /** A pattern may become several words, yet each begins with what stands before it. */
  #globs = false;

  constructor(source: string, from: number) {
    this.#source = source;
    this.#from = from;
    this.#at = from;
    this.#contentEnd = from;
  }

  read(): ReadWord {
    const source = this.#source;
    const plain = plainEnd(source, this.#from);
    if (plain > this.#from) {
      this.#text = source.slice(this.#from, plain);
      this.#at = plain;
      this.#contentEnd = plain;
    }
    while (this.#at < source.length && this.#step(source.charCodeAt(this.#at)));
    const text = this.#text;
    const lead = this.#lead ?? text;
    const whole = this.#single && lead !== '' && !lead.startsWith('-');
    const word: ShellWord = {
      text,
      lead,
      known: this.#known,
      safe: this.#known || (whole && this.#split.length === 0),
      single: this.#single && !this.#globs,
      split: this.#split,
      bare: this.#bare,
      at: this.#from,
    };
    return { word, contentEnd: this.#contentEnd, end: this.#at };
  }

  /** Takes what begins with `unit`; false where the word ends. */
  #step(unit: number): boolean {
    const source = this.#source;
    const at = this.#at;
    if (ENDS[unit] === 1) return false;
    if (unit === 0x5c) return this.#escape(at);
    if (unit === 0x27) this.#singleQuotes(at);
    else if (unit === 0x22) this.#doubleQuotes(at);
    else if (unit === 0x24) this.#dollar(at, false);
    else if (unit === 0x60) throw substitution(at);
    else if (isControl(unit)) throw new Refusal('a control character outside quotes: remove it', at);
    else {
      this.#pattern(unit);
      this.#text += source.charAt(at);
      this.#at = at + 1;
    }
    this.#contentEnd = this.#at;
    return true;
  }

  #escape(at: number): boolean {
    const next = this.#source.charAt(at + 1);
    if (next === '') throw new Refusal('a backslash at the end of the text escapes nothing: remove it', at);
    this.#at = at + 2;
    if (next === '\n') return true;
    const unit = next.charCodeAt(0);
    if (isControl(unit) && unit !== 0x09) {
      throw new Refusal('a control character outside quotes: remove it', at + 1);
    }
    this.#bare = false;
    this.#text += next;
    this.#contentEnd = this.#at;
    return true;
  }

  #singleQuotes(at: number): void {
    const end = this.#source.indexOf("'", at + 1);
    if (end < 0) throw new Refusal("a ' without its end", at);
    this.#bare = false;
    this.#text += this.#source.slice(at + 1, end);
    this.#at = end + 1;
  }

  #doubleQuotes(open: number): void {
    const source = this.#source;
    this.#bare = false;
    this.#at = open + 1;
    for (;;) {
      const start = this.#at;
      let at = start;
      while (at < source.length && !isLiveInQuotes(source.charCodeAt(at))) at += 1;
      this.#text += source.slice(start, at);
      const character = source.charAt(at);
      if (character === '') throw new Refusal('a " without its end', open);
      this.#at = at + 1;
      if (character === '"') return;
      if (character === '`') throw substitution(at);
      if (character === '$') this.#dollar(at, true);
      else this.#escapeInQuotes(at);
    }
  }

  #escapeInQuotes(at: number): void {
    const next = this.#source.charAt(at + 1);
    this.#at = at + 2;
    if (next === '\n') return;
    if (next === '') throw new Refusal('a " without its end', at);
    this.#text += '$`"\\'.includes(next) ? next : `\\${next}`;
  }

  /** What begins with `$`: an expansion, or the character. */
  #dollar(at: number, quoted: boolean): void {
    const source = this.#source;
    const next = source.charAt(at + 1);
    if (next === '(') {
      if (source.charAt(at + 2) !== '(') throw substitution(at);
      this.#at = skipArithmetic(source, at);
      this.#unknown();
      return;
    }
    if (next === '[' || next === '\\' || (!quoted && (next === "'" || next === '"'))) throw oddDollar(source, at);
    const parameter = skipParameter(source, at, quoted);
    if (parameter === undefined) {
      this.#text += '$';
      this.#at = at + 1;
      return;
    }
    this.#at = parameter.end;
    this.#unknown();
    // "$@" is as many words as there are arguments, of which only the first begins with what stands before it.
    if (!quoted || parameter.list) {
      this.#single = false;
      this.#split.push(parameter.name);
    }
  }

  #unknown(): void {
    this.#known = false;
    this.#lead ??= this.#text;
  }

  /** Follows what the shell may replace by file names, a directory or several words. */
  #pattern(unit: number): void {
    if (unit === 0x2a || unit === 0x3f || (unit === 0x5d && this.#bracketLead !== undefined)) {
      this.#unknown();
      this.#globs = true;
    } else if (unit === 0x5b) {
      this.#bracketLead ??= this.#text;
    } else if (unit === 0x7e && this.#takesTilde()) this.#unknown();
    else if (unit === 0x7b) this.#brace = Math.max(this.#brace, BRACE_OPEN);
    else if (unit === 0x2c || (unit === 0x2e && this.#isBehind('.'))) {
      if (this.#brace === BRACE_OPEN) this.#brace = BRACE_LISTED;
    } else if (unit === 0x7d && this.#brace === BRACE_LISTED) {
      this.#known = false;
      this.#lead = '';
      this.#single = false;
    }
    if (this.#globs) this.#lead = (this.#lead ?? '').slice(0, this.#bracketLead?.length);
  }

  /** Whether the last character that was read is one of these: a line continuation between the two does not count. */
  #isBehind(characters: string): boolean {
    return this.#contentEnd > this.#from && characters.includes(this.#source.charAt(this.#contentEnd - 1));
  }

  /** Whether a `~` may become a directory: bash also replaces it in arguments of the form `name=~` and `name=a:~`. */
  #takesTilde(): boolean {
    return this.#contentEnd === this.#from || (this.#isBehind('=:') && !this.#text.startsWith('-'));
  }
}

/** Characters that end a word: blank, tab, newline and those of operators. */
const ENDS = tableOf(' \t\n;&|<>()');
/** Characters that mean nothing at the beginning of a word, before any brace or bracket. */
const PLAIN = tableOf('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-/:=+@%^#!.,]}');

function tableOf(characters: string): Uint8Array {
  const table = new Uint8Array(0x80);
  for (const character of characters) table[character.charCodeAt(0)] = 1;
  return table;
}

function plainEnd(source: string, from: number): number {
  let at = from;
  while (at < source.length && PLAIN[source.charCodeAt(at)] === 1) at += 1;
  return at;
}

function isLiveInQuotes(unit: number): boolean {
  return unit === 0x22 || unit === 0x24 || unit === 0x5c || unit === 0x60;
}

function substitution(at: number): Refusal {
  return new Refusal('a command substitution can’t be judged: run the inner command by itself', at);
}

function oddDollar(source: string, at: number): Refusal {
  return new Refusal(`${quote(source.slice(at, at + 2))} is read differently by shells: use plain quotes`, at);
}
