/**
 * The encodings in which programs print a value. Written out here, since this package loads where neither `Buffer` nor
 * `btoa` can be relied on. "Byte text" is a string whose code units are bytes (0 to 255).
 */

const HEX_OF_BYTE = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** UTF-8 as byte text; a lone surrogate becomes U+FFFD, as in `TextEncoder`. */
export function utf8ByteText(text: string): string {
  if (!/[^\0-\x7f]/.test(text)) return text;
  let out = '';
  for (const character of text.toWellFormed()) {
    const code = character.codePointAt(0) ?? 0;
    if (code < 0x80) out += character;
    else if (code < 0x800) out += String.fromCharCode(0xc0 | (code >> 6), 0x80 | (code & 63));
    else if (code < 0x10000)
      out += String.fromCharCode(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    else
      out += String.fromCharCode(
        0xf0 | (code >> 18),
        0x80 | ((code >> 12) & 63),
        0x80 | ((code >> 6) & 63),
        0x80 | (code & 63),
      );
  }
  return out;
}

/** Number of bytes of `text` in UTF-8. */
export function utf8Length(text: string): number {
  let length = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    length += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return length;
}

/** Standard base64 with padding. */
export function base64(bytes: string): string {
  let out = '';
  for (let at = 0; at < bytes.length; at += 3) {
    const left = bytes.length - at;
    const group =
      (bytes.charCodeAt(at) << 16) |
      (left > 1 ? bytes.charCodeAt(at + 1) << 8 : 0) |
      (left > 2 ? bytes.charCodeAt(at + 2) : 0);
    out += BASE64.charAt(group >> 18) + BASE64.charAt((group >> 12) & 63);
    out += left > 1 ? BASE64.charAt((group >> 6) & 63) : '=';
    out += left > 2 ? BASE64.charAt(group & 63) : '=';
  }
  return out;
}

/** Lower-case hex. */
export function hex(bytes: string): string {
  let out = '';
  for (let at = 0; at < bytes.length; at += 1) {
    out += HEX_OF_BYTE[bytes.charCodeAt(at)] ?? '';
  }
  return out;
}

/** Percent-encoding with lower-case digits of everything but letters, digits and `kept`; a blank becomes `blank`. */
export function percentEncode(bytes: string, kept: string, blank: '%20' | '+'): string {
  const spelling = HEX_OF_BYTE.map((digits, byte) => {
    const character = String.fromCharCode(byte);
    if (character === ' ') return blank;
    return kept.includes(character) || /[A-Za-z0-9]/.test(character) ? character : `%${digits}`;
  });
  let out = '';
  for (let at = 0; at < bytes.length; at += 1) out += spelling[bytes.charCodeAt(at)] ?? '';
  return out;
}

/** Upper-cases the digits of every escape that `percentEncode` wrote. */
export function upperPercentDigits(encoded: string): string {
  return encoded.replace(/%[0-9a-f]{2}/g, (digits) => digits.toUpperCase());
}

/** Which characters `jsonEscape` writes as `\u` escapes beside the control characters, and whether it escapes `/`. */
export interface JsonStyle {
  readonly unicode: boolean;
  readonly slash: boolean;
  readonly html: boolean;
}

const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
};

/** Anything that some style escapes. */
const NEEDS_ESCAPE = /[^ !#-%'-.0-;=?-[\]-~]/;

/** The inside of a JSON string; the digits of `\u` escapes are lower-case or, with `upper`, upper-case. */
export function jsonEscape(text: string, style: JsonStyle, upper: boolean): string {
  if (!NEEDS_ESCAPE.test(text)) return text;
  let out = '';
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    const short = SHORT_ESCAPES[character];
    if (short !== undefined) out += short;
    else if (character === '/' && style.slash) out += '\\/';
    else if (needsUnicodeEscape(text.charCodeAt(at), style)) {
      const digits = text.charCodeAt(at).toString(16).padStart(4, '0');
      out += `\\u${upper ? digits.toUpperCase() : digits}`;
    } else out += character;
  }
  return out;
}

function needsUnicodeEscape(code: number, style: JsonStyle): boolean {
  if (code < 0x20) return true;
  if (style.unicode && code > 0x7e) return true;
  return style.html && (code === 0x3c || code === 0x3e || code === 0x26 || code === 0x2028 || code === 0x2029);
}
