import type { LineFindings, PatternKind } from './hit.ts';
import { isCode, isReference, isSecret } from './secret-value.ts';
import { TOPIC } from './triggers.ts';

const QUALIFIERS =
  'api|access|account|storage|secret|encryption|private|signing|client|shared|master|service|admin|webhook|auth|ssh|app|license';
/** A name that ends in one of these, with its closing quote, and what leads to the value. */
const ASSIGNMENT = new RegExp(
  `(?:password|passwd|passphrase|pwd|secret|token|credentials?|(?:${QUALIFIERS})[ _.-]?key)` +
    `(\\\\{0,3}["'\`]?\\]?[ \\t]{0,8}(?:=>|:=|:[ \\t]?[A-Za-z]{1,20}[ \\t]?=(?![=>])|[:=](?![=:])|%3D|\\\\u003d)[ \\t]{0,8})`,
  'gi',
);
const OPTION = new RegExp(
  `--[\\w-]{0,64}?(?:password|passwd|passphrase|pwd|secret|token|credentials?|(?:${QUALIFIERS})[_.-]?key)([ \\t]{1,8})`,
  'gi',
);
const ELEMENT = new RegExp(
  `(?:password|passwd|passphrase|pwd|secret|token|credentials?|(?:${QUALIFIERS})[_.-]?key)>`,
  'gi',
);
const AUTHORIZATION =
  /authorization\\{0,3}["'`]?[ \t]{0,8}[:=][ \t]{0,8}\\{0,3}["'`]?(?:bearer|basic|token)[ \t]{1,8}/gi;
const HEADER =
  /(?:(?<![A-Za-z0-9-])x-[a-z0-9-]{0,64}?(?:key|token)|private-token)\\{0,3}["'`]?[ \t]{0,8}[:=][ \t]{0,8}\\{0,3}["'`]?/gi;
const COOKIE = /(set-)?cookie\\{0,3}["'`]?[ \t]{0,8}:[ \t]{0,8}\\{0,3}["'`]?/gi;
const QUERY =
  /(?:(?:^|[?&;"' \t])(?:sig|x-amz-signature|x-amz-security-token)|[?&;](?:access_token|api_key|token|password)|(?:^|[;"' \t])(?:accountkey|sharedaccesskey))=/gi;
const CURL_USER = /[ \t](?:-u|--user)[ \t=]{1,8}["']?[^ \t\r\n\f\v:"']{0,256}:/g;
const CURL_COOKIE = /[ \t](?:-b|--cookie)[ \t=]{1,8}["']?/g;
const NETRC = /(?:^|[ \t])password[ \t]{1,8}/g;
const NETRC_LINE = /(?:^|[ \t])(?:machine[ \t]+[^ \t\r]|login[ \t]+[^ \t\r]|default[ \t])/;
const DOCKER_AUTH = /"auth"[ \t]{0,8}:[ \t]{0,8}"/g;
const KUBECONFIG = /client-key-data["']?[ \t]{0,8}:[ \t]{0,8}["']?/g;

const UNQUOTED = /[^ \t\r\n\f\v"'`,;<>&(){}[\]]*/y;
const HEADER_VALUE = /[^ \t\r\n\f\v"'`,;<>\\]*/y;
const QUERY_VALUE = /[^ \t\r\n\f\v"'`;&<>\\]*/y;
const COOKIE_PAIR = /[^ \t\r\n\f\v=;"'\\]{1,256}=/y;
/** Labels inside one value. */
const MOST_NESTED = 16;
const USER = /[^ \t\r\n\f\v/?#"'<>\\`]*/y;

/** Adds the values in a line that their label makes secret. */
export function findLabelled(line: string, topics: number, findings: LineFindings): void {
  const has = (topic: number): boolean => (topics & topic) !== 0;
  if (has(TOPIC.address)) findAddresses(line, findings);
  if (has(TOPIC.query | TOPIC.label)) findAll(QUERY, QUERY_VALUE, 'query-value', line, findings);
  if (has(TOPIC.header)) {
    findAll(AUTHORIZATION, HEADER_VALUE, 'authorization', line, findings);
    findAll(DOCKER_AUTH, HEADER_VALUE, 'authorization', line, findings);
  }
  if (has(TOPIC.cookie)) findCookies(line, findings);
  if (has(TOPIC.curl)) findCurl(line, findings);
  if (!has(TOPIC.label)) return;
  findAll(HEADER, HEADER_VALUE, 'authorization', line, findings);
  findAll(KUBECONFIG, HEADER_VALUE, 'private-key', line, findings);
  if (line.includes('password')) findNetrc(line, findings);
  findAssignments(line, findings);
}

function findCurl(line: string, findings: LineFindings): void {
  const curl = line.indexOf('curl');
  if (curl < 0) return;
  findAll(CURL_USER, HEADER_VALUE, 'authorization', line, findings, curl);
  for (const start of starts(CURL_COOKIE, line)) if (start > curl) findPairs(line, start, findings);
}

/** Indices behind the matches of a pattern. */
function starts(pattern: RegExp, line: string): number[] {
  const found: number[] = [];
  pattern.lastIndex = 0;
  while (pattern.test(line)) found.push(pattern.lastIndex);
  return found;
}

function valueAt(pattern: RegExp, line: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(line)?.[0] ?? '';
}

/** Adds the values behind all matches of a label, whatever they are, but for references. */
function findAll(
  label: RegExp,
  value: RegExp,
  kind: PatternKind,
  line: string,
  findings: LineFindings,
  behind = -1,
): void {
  for (const start of starts(label, line))
    if (start > behind) add(line, start, valueAt(value, line, start), kind, findings);
}

function add(line: string, start: number, value: string, kind: PatternKind, findings: LineFindings): void {
  if (isInAddress(start, findings)) return;
  const end = start + value.length;
  if (end === line.length) findings.open = Math.min(findings.open, start);
  if (value !== '' && !isReference(value)) findings.hits.push({ start, end, kind });
}

function isInAddress(at: number, { authorities }: LineFindings): boolean {
  return authorities.some(([start, end]) => at >= start && at < end);
}

function findAddresses(line: string, findings: LineFindings): void {
  for (let at = line.indexOf('://'); at >= 0; at = line.indexOf('://', at)) {
    const start = at + 3;
    const authority = valueAt(USER, line, start);
    at = start + authority.length;
    if (at === line.length) findings.open = Math.min(findings.open, start);
    const sign = authority.lastIndexOf('@');
    if (sign < 0) continue;
    findings.authorities.push([start, at]);
    const user = authority.slice(0, sign);
    const colon = user.indexOf(':');
    const secret = colon < 0 ? user : user.slice(colon + 1);
    if (secret === '' || isReference(secret) || (colon < 0 && user.length < 20)) continue;
    findings.hits.push({ start: start + sign - secret.length, end: start + sign, kind: 'url-password' });
  }
}

function findCookies(line: string, findings: LineFindings): void {
  COOKIE.lastIndex = 0;
  for (let found = COOKIE.exec(line); found !== null; found = COOKIE.exec(line)) {
    findPairs(line, COOKIE.lastIndex, findings, found[1] !== undefined);
  }
}

/** Adds the values of `name=value` pairs; of a cookie that is set only the first pair is one. */
function findPairs(line: string, from: number, findings: LineFindings, onlyFirst = false): void {
  for (let at = from; ; ) {
    const name = valueAt(COOKIE_PAIR, line, at);
    if (name === '') return;
    const value = valueAt(HEADER_VALUE, line, at + name.length);
    add(line, at + name.length, value, 'cookie', findings);
    at += name.length + value.length;
    if (onlyFirst || line.charAt(at) !== ';') return;
    while (line.charAt(at) === ';' || line.charAt(at) === ' ') at += 1;
  }
}

/** Without blanks at both ends; those beyond ASCII count as text, as they do in bytes. */
function trimmed(text: string): string {
  let [from, to] = [0, text.length];
  while (from < to && ' \t\r'.includes(text.charAt(from))) from += 1;
  while (to > from && ' \t\r'.includes(text.charAt(to - 1))) to -= 1;
  return text.slice(from, to);
}

function findNetrc(line: string, findings: LineFindings): void {
  const login = NETRC_LINE.exec(line)?.index ?? line.length;
  NETRC.lastIndex = 0;
  for (let found = NETRC.exec(line); found !== null; found = NETRC.exec(line)) {
    const start = NETRC.lastIndex;
    // What names the account stands before the word: nothing behind it changes whether it does.
    const named = login < found.index;
    const value = valueAt(HEADER_VALUE, line, start);
    const alone = trimmed(line) === `password ${value}` || trimmed(line.slice(0, start)) === 'password';
    const ends = start + value.length;
    if (ends === line.length && (named || alone)) findings.open = Math.min(findings.open, start);
    if (value !== '' && (named ? !isReference(value) : alone && trimmed(line.slice(ends)) === '' && isSecret(value))) {
      findings.hits.push({ start, end: ends, kind: 'password' });
    }
  }
}

function findAssignments(line: string, findings: LineFindings): void {
  let nested = 0;
  ASSIGNMENT.lastIndex = 0;
  for (let found = ASSIGNMENT.exec(line); found !== null; found = ASSIGNMENT.exec(line)) {
    if (isInAddress(found.index, findings)) continue;
    const from = addAssigned(line, ASSIGNMENT.lastIndex, /[ \t]/.test(found[1] ?? ''), findings);
    // Labels inside a value that is no secret are looked at, yet not without bound.
    nested = from === ASSIGNMENT.lastIndex ? nested + 1 : 0;
    ASSIGNMENT.lastIndex = Math.max(ASSIGNMENT.lastIndex, nested > MOST_NESTED ? endOfRun(line, from) : from);
  }
  for (const start of starts(OPTION, line)) {
    if (line.charAt(start) !== '-') addAssigned(line, start, false, findings);
  }
  for (const start of starts(ELEMENT, line)) {
    const end = line.indexOf('<', start);
    const value = line.slice(start, end < 0 ? line.length : end);
    if (end < 0) findings.open = Math.min(findings.open, start);
    if (isSecret(value)) findings.hits.push({ start, end: start + value.length, kind: 'password' });
  }
}

function endOfRun(line: string, at: number): number {
  return at + valueAt(UNQUOTED, line, at).length;
}

/** Adds a value that may be quoted, with backslashes before the quote; where the search for labels goes on. */
function addAssigned(line: string, at: number, spaced: boolean, findings: LineFindings): number {
  let quoteAt = at;
  while (line.charAt(quoteAt) === '\\' && quoteAt < at + 3) quoteAt += 1;
  const mark = line.charAt(quoteAt);
  const quoted = mark === '"' || mark === "'" || mark === '`';
  const width = quoted && line.startsWith(mark.repeat(3), quoteAt) ? 3 : 1;
  const start = quoted ? quoteAt + width : at;
  const closed = quoted ? quotedValue(line, start, line.slice(at, start)) : undefined;
  const value = closed ?? valueAt(UNQUOTED, line, start);
  const end = start + value.length;
  if (end === line.length || (quoted && closed === undefined)) findings.open = Math.min(findings.open, start);
  // What lies inside such a value has the same end and no digit either.
  if (!/[0-9]/.test(value)) return end;
  if (!isSecret(value) || (closed === undefined && isCode(value, line.charAt(end), spaced))) return at;
  findings.hits.push({ start, end, kind: 'password' });
  return end;
}

/** The value up to the quote that closes it; the whole rest where none does. */
function quotedValue(line: string, start: number, quote: string): string | undefined {
  let end = line.indexOf(quote, start);
  while (end > start && quote.length === 1 && isEscaped(line, start, end)) end = line.indexOf(quote, end + 1);
  return end < 0 ? undefined : line.slice(start, end);
}

function isEscaped(line: string, start: number, at: number): boolean {
  let slashes = 0;
  while (at - slashes > start && line.charAt(at - slashes - 1) === '\\') slashes += 1;
  return slashes % 2 === 1;
}
