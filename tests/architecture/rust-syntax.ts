/** What the budgets need of a Rust file: its text without tests, and its functions. No parser, a scanner of tokens. */

/** A function with its first and last line counted. */
export interface RustFunction {
  readonly name: string;
  readonly line: number;
  readonly lines: number;
}

const tokenPatterns = [
  /\/\/[^\n]*/y,
  /b?r(#*)"[\s\S]*?"\1/y,
  /[bc]?"(?:\\[\s\S]|[^"\\])*"/y,
  // A character, never a lifetime: one escaped or plain character, then the closing quote.
  /b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|[\s\S])|[^'\\])'/uy,
];

function blockCommentEnd(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const two = text.slice(at, at + 2);
    if (two === '/*') {
      depth += 1;
      at += 1;
    } else if (two === '*/') {
      depth -= 1;
      at += 1;
      if (depth === 0) return at + 1;
    }
  }
  return text.length;
}

function opaqueEnd(text: string, at: number): number | undefined {
  if (text.startsWith('/*', at)) return blockCommentEnd(text, at);
  // `r"` inside an identifier such as `var"` is no raw string.
  if (/[A-Za-z0-9_]/.test(text[at - 1] ?? '') && /[a-z]/.test(text[at] ?? '')) return undefined;
  for (const pattern of tokenPatterns) {
    pattern.lastIndex = at;
    if (pattern.test(text)) return pattern.lastIndex;
  }
  return undefined;
}

/** The text with every comment, string and character replaced by blanks of the same length; lines stay where they are. */
export function blankOpaque(text: string): string {
  let result = '';
  for (let at = 0; at < text.length; ) {
    const end = opaqueEnd(text, at);
    if (end === undefined) {
      result += text[at];
      at += 1;
    } else {
      result += text.slice(at, end).replace(/[^\n]/g, ' ');
      at = end;
    }
  }
  return result;
}

function closingBrace(code: string, open: number): number {
  let depth = 0;
  for (let at = open; at < code.length; at += 1) {
    if (code[at] === '{') depth += 1;
    if (code[at] === '}') depth -= 1;
    if (depth === 0) return at;
  }
  return code.length - 1;
}

/** The text without the bodies of `#[cfg(test)] mod …`: tests in the file count in no budget. */
export function withoutTests(text: string): string {
  const code = blankOpaque(text);
  let result = '';
  let from = 0;
  for (const match of code.matchAll(/#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub\s+)?mod\s+\w+\s*\{/g)) {
    if (match.index < from) continue;
    result += text.slice(from, match.index);
    from = closingBrace(code, match.index + match[0].length - 1) + 1;
  }
  return result + text.slice(from);
}

/** Every function with a body, nested ones included. */
export function rustFunctions(text: string): readonly RustFunction[] {
  const code = blankOpaque(text);
  const found: RustFunction[] = [];
  for (const match of code.matchAll(/\bfn\s+(\w+)/g)) {
    const open = bodyStart(code, match.index + match[0].length);
    if (open === undefined) continue;
    const line = code.slice(0, match.index).split('\n').length;
    const lines = code.slice(match.index, closingBrace(code, open) + 1).split('\n').length;
    found.push({ name: match[1] ?? '', line, lines });
  }
  return found;
}

/** Where the body opens; `undefined` for a declaration that ends in `;`. A `;` inside `[u8; 4]` is part of a type. */
function bodyStart(code: string, from: number): number | undefined {
  let nesting = 0;
  for (let at = from; at < code.length; at += 1) {
    const char = code[at];
    if (char === '(' || char === '[') nesting += 1;
    else if (char === ')' || char === ']') nesting -= 1;
    else if (char === ';' && nesting === 0) return undefined;
    else if (char === '{' && nesting === 0) return at;
  }
  return undefined;
}
