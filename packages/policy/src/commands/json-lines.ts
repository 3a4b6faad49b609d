/** The lines of the values in a JSON text, by path: `commands[2].args_allow[0]`. */
export interface JsonLines {
  readonly lines: ReadonlyMap<string, number>;
  /** Paths that an object has twice: JSON would let the last one win. */
  readonly repeated: readonly string[];
}

const TOKEN = /[ \t\r\n]*(?:("(?:[^"\\]|\\.)*")|([{}[\],:])|([^ \t\r\n{}[\],:"]+))/y;

interface Level {
  readonly path: string;
  /** Number of the element; `null` in an object. */
  index: number | null;
  key: string;
}

/** Reads where everything stands in a text that is JSON. Of other text it says what it can. */
export function jsonLines(text: string): JsonLines {
  const reader = new LineReader();
  let [line, counted] = [1, 0];
  TOKEN.lastIndex = 0;
  for (let found = TOKEN.exec(text); found !== null; found = TOKEN.exec(text)) {
    const token = found[1] ?? found[2] ?? found[3] ?? '';
    const start = TOKEN.lastIndex - token.length;
    for (; counted < start; counted += 1) if (text.charCodeAt(counted) === 0x0a) line += 1;
    reader.take(token, line);
  }
  return reader;
}

class LineReader implements JsonLines {
  readonly lines = new Map<string, number>();
  readonly repeated: string[] = [];
  readonly #levels: Level[] = [];
  #expectsKey = false;

  take(token: string, line: number): void {
    if (token === ',') this.#nextElement();
    else if (token === '}' || token === ']') this.#closeLevel();
    else if (this.#expectsKey) this.#startValue(token, line);
    else if (token !== ':') this.#value(token, line);
  }

  #nextElement(): void {
    const level = this.#levels.at(-1);
    this.#expectsKey = level?.index === null;
    if (level !== undefined && level.index !== null) level.index += 1;
  }

  #closeLevel(): void {
    this.#levels.pop();
    this.#expectsKey = false;
  }

  #startValue(token: string, line: number): void {
    const level = this.#levels.at(-1);
    this.#expectsKey = false;
    if (level === undefined) return;
    level.key = keyOf(token);
    const path = pathOf(level);
    if (this.lines.has(path)) this.repeated.push(path);
    this.lines.set(path, line);
  }

  #value(token: string, line: number): void {
    const level = this.#levels.at(-1);
    const path = level === undefined ? '' : pathOf(level);
    if (!this.lines.has(path)) this.lines.set(path, line);
    if (token !== '{' && token !== '[') return;
    this.#levels.push({ path, index: token === '[' ? 0 : null, key: '' });
    this.#expectsKey = token === '{';
  }
}

function pathOf({ path, index, key }: Level): string {
  if (index !== null) return `${path}[${index}]`;
  return path === '' ? key : `${path}.${key}`;
}

function keyOf(quoted: string): string {
  try {
    return String(JSON.parse(quoted));
  } catch {
    // A text that is no JSON; the parser says so.
    return quoted;
  }
}
