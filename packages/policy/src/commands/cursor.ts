import { isControl, quote, Refusal } from './refusal.ts';
import { type ReadWord, readWord } from './word-reader.ts';

interface PendingBody {
  readonly delimiter: string;
  readonly stripsTabs: boolean;
  readonly inert: boolean;
  readonly at: number;
}

/**
 * Reads the text of a command once from left to right, along the tree that the grammar made of it. What stands between
 * the parts of the tree must be exactly the operators and keywords that its form requires: text that the grammar has
 * passed over, or reads otherwise than this, is refused.
 */
export class Cursor {
  readonly source: string;
  /** Index of what is read next. */
  at = 0;
  readonly #bodies: PendingBody[] = [];

  constructor(source: string) {
    this.source = source;
  }

  /** Skips blanks, line continuations and a comment; stops at the end of the line. */
  skipBlanks(): void {
    const { source } = this;
    let fresh = this.at === 0 || ' \t\n;&|()<>'.includes(source.charAt(this.at - 1));
    for (;;) {
      const character = source.charAt(this.at);
      if (character === ' ' || character === '\t') {
        this.at += 1;
        fresh = true;
      } else if (character === '\\' && source.charAt(this.at + 1) === '\n') this.at += 2;
      else if (character === '#' && fresh) {
        const end = source.indexOf('\n', this.at);
        this.at = end < 0 ? source.length : end;
        return;
      } else return;
    }
  }

  /** Skips blanks, comments, newlines and the bodies of heredocs; tells whether there was a newline. */
  skipLines(): boolean {
    let passed = false;
    for (;;) {
      this.skipBlanks();
      if (this.source.charAt(this.at) !== '\n') return passed;
      passed = true;
      this.at += 1;
      for (const body of this.#bodies.splice(0)) this.#skipBody(body);
    }
  }

  /** Whether `text` comes next. */
  sees(text: string): boolean {
    this.skipBlanks();
    return this.source.startsWith(text, this.at);
  }

  /** Passes an operator. */
  operator(text: string): void {
    if (!this.sees(text)) throw this.unexpected(text);
    this.at += text.length;
  }

  /** Passes a keyword. */
  keyword(text: string): void {
    this.operator(text);
    const next = this.source.charAt(this.at);
    const ends = next === '' || ' \t\n;&|()<>'.includes(next) || this.source.startsWith('\\\n', this.at);
    if (!ends) throw this.unexpected(text);
  }

  /** Reads a word that is part of the tree at these positions. */
  word(pos: number, end: number): ReadWord['word'] {
    this.skipBlanks();
    this.expectAt(pos);
    const read = readWord(this.source, this.at);
    if (read.end === this.at) throw this.unexpected('a word');
    if (end < read.contentEnd || end > read.end) throw this.disagreement(this.at);
    this.at = read.end;
    return read.word;
  }

  /** Reads a word of which the tree says nothing; `undefined` where none comes next. */
  freeWord(): ReadWord['word'] | undefined {
    this.skipBlanks();
    const read = readWord(this.source, this.at);
    if (read.end === this.at) return undefined;
    this.at = read.end;
    return read.word;
  }

  /** Requires that a part of the tree begins here. */
  expectAt(pos: number): void {
    this.skipBlanks();
    let from = pos;
    while (this.source.startsWith('\\\n', from)) from += 2;
    if (from !== this.at) throw this.disagreement(Math.min(from, this.at));
  }

  /** Requires the end of the text, behind the last body. */
  finish(): void {
    this.skipLines();
    if (this.at < this.source.length) throw this.disagreement(this.at);
    const [missing] = this.#bodies;
    if (missing !== undefined) throw noEnd(missing);
  }

  /** Notes a heredoc whose body follows the line; the delimiter has been read. */
  addBody(delimiter: ReadWord['word'], stripsTabs: boolean): void {
    if (!delimiter.known || delimiter.text.includes('\n')) {
      throw new Refusal('the delimiter of a heredoc must be a plain word', delimiter.at);
    }
    this.#bodies.push({ delimiter: delimiter.text, stripsTabs, inert: !delimiter.bare, at: delimiter.at });
  }

  #skipBody(body: PendingBody): void {
    const { source } = this;
    for (;;) {
      if (this.at >= source.length) throw noEnd(body);
      const found = source.indexOf('\n', this.at);
      const end = found < 0 ? source.length : found;
      let from = this.at;
      if (body.stripsTabs) while (source.charAt(from) === '\t') from += 1;
      const line = source.slice(from, end);
      if (line === body.delimiter) {
        // Reading goes on at the newline that ends the body, so that what follows is on a line of its own.
        this.at = end;
        if (found >= 0) this.at += 1;
        return;
      }
      if (!body.inert && /[$`\\]/.test(line)) {
        const advice = "quote the delimiter (<<'EOF'), or leave $, ` and \\ out of the body";
        throw new Refusal(`a heredoc expands what is in it: ${advice}`, from);
      }
      if (found < 0) throw noEnd(body);
      this.at = end + 1;
    }
  }

  /** Something else stands where `text` has to. */
  unexpected(text: string): Refusal {
    const found = this.source.charAt(this.at);
    if (found === '') return new Refusal(`the text ends where ${quote(text)} is expected`, this.at);
    if (found !== '\n' && isControl(found.charCodeAt(0))) {
      return new Refusal('a control character outside quotes: remove it', this.at);
    }
    const place = found === '\n' ? 'the end of the line' : quote(this.source.slice(this.at, this.at + 12));
    return new Refusal(`${place} stands where ${quote(text)} is expected`, this.at);
  }

  /** The grammar and this reading differ. */
  disagreement(at: number): Refusal {
    const found = this.source.charAt(at);
    if (found !== '' && found !== '\n' && found !== '\t' && isControl(found.charCodeAt(0))) {
      return new Refusal('a control character outside quotes: remove it', at);
    }
    const text = quote(this.source.slice(at, at + 12));
    return new Refusal(`${text} can be read in more than one way: write it more plainly`, at);
  }
}

function noEnd({ delimiter, at }: PendingBody): Refusal {
  return new Refusal(`no line ${quote(delimiter)} ends the heredoc`, at);
}
