const WORDS = new Set([
  'null',
  'none',
  'true',
  'false',
  'undefined',
  'nil',
  'string',
  'redacted',
  'changeme',
  'example',
]);
const CALL = /^[A-Za-z_$][\w.$]*$/;
const DOTTED = /^[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+$/;

/** A text that stands for a value: a variable, a template, a placeholder of a manual, a path. */
export function isReference(value: string): boolean {
  if (/^(?:\$|%[A-Za-z_]\w*%|\{\{|<|!|\*{3}|\[|\{)/.test(value)) return true;
  if (/^(?:x{4,}|\.{3}|your[-_ ]|my[-_ ]|[a-z]+\.env\b|os\.(?:environ|getenv)\b|import\.meta\b|env\.)/i.test(value))
    return true;
  if (WORDS.has(value.toLowerCase())) return true;
  if (/^(?:~|\.{1,2})?\/[\w.@ -]+(?:\/[\w.@ -]*)+$/.test(value) || /^(?:[A-Za-z]:\\|\.{1,2}\/|~\/)/.test(value))
    return true;
  return /^\/[\w.-]*$/.test(value) || /^[a-z][a-z0-9+.-]*:\/\//i.test(value) || /^arn:/.test(value);
}

/** Whether the value of an assignment is a secret: eight characters, letters and digits, no reference. */
export function isSecret(value: string): boolean {
  return asciiLength(value) >= 8 && /[A-Za-z]/.test(value) && /[0-9]/.test(value) && !isReference(value);
}

/** Whether an unquoted value is code: the beginning of a call or an index, or a name with dots. */
export function isCode(value: string, next: string, spaced: boolean): boolean {
  if ((next === '(' || next === '[') && CALL.test(value)) return true;
  return spaced && DOTTED.test(value);
}

/** Characters of ASCII: as many in text as in its bytes. */
function asciiLength(value: string): number {
  let length = 0;
  for (let at = 0; at < value.length && length < 8; at += 1) if (value.charCodeAt(at) < 0x80) length += 1;
  return length;
}
