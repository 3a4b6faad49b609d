/**
 * Whether a script of sed consists of what can neither run a program nor name a file. Where versions of sed read a script
 * differently it does not: a `#`, a delimiter inside brackets, text that goes on behind a backslash.
 */
export function isHarmlessSedScript(script: string): boolean {
  return new SedScript(script).isHarmless();
}

const PLAIN_COMMANDS = 'pPdDnNgGhHxzF=';
const COMMANDS_WITH_NUMBER = 'lqQ';
const LABEL_COMMANDS = 'btT:';
const TEXT_COMMANDS = 'aic';
const NUMBER = /[0-9]+/y;
const LABEL = /[A-Za-z0-9_.-]*/y;
const FLAGS = /[gpIiMm0-9]*/y;
const BLANKS = /[ \t]*/y;
/** What stands behind the inner `[` of a class such as `[:alpha:]`. */
const CLASS = /:[a-z]+:\]/y;

class SedScript {
  readonly #script: string;
  #at = 0;
  #open = 0;

  constructor(script: string) {
    this.#script = script;
  }

  isHarmless(): boolean {
    while (true) {
      this.#skipSeparators();
      if (this.#at >= this.#script.length) return this.#open === 0;
      if (!this.#command()) return false;
    }
  }

  #skipSeparators(): void {
    while (' \t\n;'.includes(this.#peek()) && this.#peek() !== '') this.#at += 1;
  }

  #command(): boolean {
    if (!this.#addresses()) return false;
    const command = this.#peek();
    if (command === '') return false;
    this.#at += 1;
    if (command === '{') {
      this.#open += 1;
      return true;
    }
    if (command === '}') {
      this.#open -= 1;
      return this.#open >= 0 && this.#ends();
    }
    if (TEXT_COMMANDS.includes(command)) return this.#text();
    if (LABEL_COMMANDS.includes(command)) {
      this.#take(BLANKS);
      this.#take(LABEL);
      return this.#ends();
    }
    if (COMMANDS_WITH_NUMBER.includes(command)) {
      this.#take(BLANKS);
      this.#take(NUMBER);
      return this.#ends();
    }
    if (command === 's') return this.#delimited(true) && this.#flags();
    if (command === 'y') return this.#delimited(false) && this.#ends();
    return PLAIN_COMMANDS.includes(command) && this.#ends();
  }

  /** Addresses, `!` and the blanks around them. */
  #addresses(): boolean {
    const first = this.#address(false);
    if (first === 'wrong') return false;
    this.#take(BLANKS);
    if (first === 'address' && this.#peek() === ',') {
      this.#at += 1;
      this.#take(BLANKS);
      if (this.#address(true) !== 'address') return false;
      this.#take(BLANKS);
    }
    if (this.#peek() === '!') {
      this.#at += 1;
      this.#take(BLANKS);
    }
    return true;
  }

  #address(second: boolean): 'none' | 'address' | 'wrong' {
    const character = this.#peek();
    if (character === '$') {
      this.#at += 1;
      return 'address';
    }
    if (second && character === '+') {
      this.#at += 1;
      return this.#take(NUMBER) === '' ? 'wrong' : 'address';
    }
    if (this.#take(NUMBER) !== '') {
      if (this.#peek() !== '~') return 'address';
      this.#at += 1;
      return this.#take(NUMBER) === '' ? 'wrong' : 'address';
    }
    if (character !== '/') return 'none';
    this.#at += 1;
    if (!this.#until('/', true)) return 'wrong';
    while ('IM'.includes(this.#peek()) && this.#peek() !== '') this.#at += 1;
    return 'address';
  }

  #delimited(brackets: boolean): boolean {
    const delimiter = this.#peek();
    if (delimiter === '' || delimiter === '\n' || delimiter === '\\') return false;
    this.#at += delimiter.length;
    return this.#until(delimiter, brackets) && this.#until(delimiter, false);
  }

  /** Passes the delimiter; not where it stands inside brackets of a pattern, since versions differ there. */
  #until(delimiter: string, brackets: boolean): boolean {
    while (this.#at < this.#script.length) {
      const character = this.#peek();
      this.#at += 1;
      if (character === delimiter) return true;
      if (character === '\n') return false;
      if (character === '\\') this.#at += 1;
      else if (brackets && character === '[' && !this.#bracket(delimiter)) return false;
    }
    return false;
  }

  /** Passes what stands behind a `[`, up to its `]`. */
  #bracket(delimiter: string): boolean {
    if (this.#peek() === '^') this.#at += 1;
    if (this.#peek() === ']') this.#at += 1;
    while (this.#at < this.#script.length) {
      const character = this.#peek();
      this.#at += 1;
      if (character === ']') return true;
      if (character === delimiter || character === '\n') return false;
      if (character === '\\') this.#at += 1;
      else if (character === '[') this.#take(CLASS);
    }
    return false;
  }

  #flags(): boolean {
    this.#take(FLAGS);
    return this.#ends();
  }

  /** The text of `a`, `i` and `c`, to the end of its line. */
  #text(): boolean {
    this.#take(BLANKS);
    const classical = this.#script.startsWith('\\\n', this.#at);
    if (classical) this.#at += 2;
    while (this.#at < this.#script.length && this.#peek() !== '\n') {
      const escapes = this.#peek() === '\\';
      this.#at += 1;
      if (!escapes) continue;
      if (this.#peek() === '\n' && !classical) return false;
      this.#at += 1;
    }
    return true;
  }

  /** The end of a command. */
  #ends(): boolean {
    this.#take(BLANKS);
    const next = this.#peek();
    if (next === ';' || next === '\n') this.#at += 1;
    return next === '' || ';\n}'.includes(next);
  }

  #peek(): string {
    return this.#script.charAt(this.#at);
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const text = pattern.exec(this.#script)?.[0] ?? '';
    this.#at += text.length;
    return text;
  }
}
