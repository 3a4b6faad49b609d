import { type CommandAllowlist, compileAllowlist } from './allowlist.ts';
import { AllowlistError } from './allowlist-error.ts';
import { type JsonLines, jsonLines } from './json-lines.ts';

/** Bytes of a configuration, as characters. */
const LONGEST_TEXT = 1 << 20;

/**
 * Reads an allowlist that is written in JSON: a list of rules, or an object with `commands` and `enforce`.
 * @param file What messages call the text: a file, or the name of a variable.
 * @throws AllowlistError with `file`, `line` and `key`; no part of a wrong list is used.
 */
export function parseAllowlist(text: string, file: string): CommandAllowlist {
  if (text.length > LONGEST_TEXT) throw new AllowlistError('allowlist', 'is longer than 1 MiB', { file, line: 1 });
  const value = parseJson(text, file);
  const places = jsonLines(text);
  const isList = Array.isArray(value);
  const [repeated] = places.repeated;
  if (repeated !== undefined) {
    const key = isList ? `commands${repeated}` : repeated;
    throw new AllowlistError(key, 'is given twice', { file, line: places.lines.get(repeated) ?? 1 });
  }
  try {
    return compileAllowlist(value);
  } catch (error) {
    if (!(error instanceof AllowlistError)) throw error;
    throw error.at({ file, line: lineOf(places, isList ? error.key.replace(/^commands/, '') : error.key) });
  }
}

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const position = cause instanceof Error ? /position (\d+)/.exec(cause.message)?.[1] : undefined;
    const line = text.slice(0, Number(position ?? text.length)).split('\n').length;
    throw new AllowlistError('allowlist', 'is not written in JSON', { file, line, cause });
  }
}

/** The line of a key, or of the nearest thing around it that is in the text. */
function lineOf({ lines }: JsonLines, key: string): number {
  for (let path = key; ; path = path.replace(/(?:\.[^.[\]]*|\[\d+\]|^[^.[\]]+)$/, '')) {
    const line = lines.get(path);
    if (line !== undefined || path === '') return line ?? 1;
  }
}
