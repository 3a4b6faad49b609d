/** A word of a command, as far as it can be told before the command runs. */
export interface ShellWord {
  /** The word with its quotes resolved. Of a word that is not known, only the literal parts. */
  readonly text: string;
  /** The literal beginning, up to the first part that depends on something. */
  readonly lead: string;
  /** No parameter, no arithmetic, no pattern, no leading `~`, no braces: the program gets exactly `text`. */
  readonly known: boolean;
  /** What the program gets can't be an option: the word is known, or it begins with text other than `-` and stays whole. */
  readonly safe: boolean;
  /** The program gets exactly one word. */
  readonly single: boolean;
  /** Unquoted parameters by name; `''` for one whose value can't be traced. */
  readonly split: readonly string[];
  /** Nothing is quoted or escaped. */
  readonly bare: boolean;
  /** Index of its first character. */
  readonly at: number;
}

const NOTHING: readonly string[] = [];

/** A known word that stands for a part of another one, or for a keyword. */
export function literalWord(text: string, at: number): ShellWord {
  return { text, lead: text, known: true, safe: true, single: true, split: NOTHING, bare: true, at };
}

/** One or more words that another program adds, of which nothing is known. */
export function addedWords(at: number): ShellWord {
  return { text: '', lead: '', known: false, safe: false, single: false, split: [''], bare: false, at };
}

/**
 * A word in which every `mark` is replaced by text that is not known, as if a quoted parameter stood in its place.
 * @param wholeIsSafe Whether what replaces a word that is the mark alone can't begin with `-`.
 */
export function withReplacement(word: ShellWord, mark: string, wholeIsSafe = false): ShellWord {
  const at = word.text.indexOf(mark);
  if (at < 0) return word;
  const lead = word.lead.slice(0, at);
  const safe = word.single && (lead === '' ? wholeIsSafe && word.text === mark : !lead.startsWith('-'));
  return { ...word, text: word.text.replaceAll(mark, ''), lead, known: false, safe };
}
