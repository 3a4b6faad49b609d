import type { LineFindings, PatternKind } from './hit.ts';
import { TRIGGER_REACH, triggersIn } from './triggers.ts';

interface Format {
  readonly kind: PatternKind;
  /** What every such token begins with, as a pattern. */
  readonly prefix: string;
  /** What follows the prefix, as a pattern that matches one way only. */
  readonly rest: string;
}

const ENDS = '(?![A-Za-z0-9])';

/** Tokens that are known by their form alone: the vendors' published formats. */
const FORMATS: readonly Format[] = [
  { kind: 'aws-key', prefix: 'A[KS]IA', rest: `[A-Z2-7]{16}${ENDS}` },
  { kind: 'google-key', prefix: 'AIza', rest: `[\\w-]{35}${ENDS}` },
  { kind: 'google-key', prefix: 'GOCSPX-', rest: `[\\w-]{28}${ENDS}` },
  { kind: 'google-key', prefix: 'ya29\\.', rest: '[\\w.-]{60,}' },
  { kind: 'github-token', prefix: 'gh[pousr]_', rest: '[A-Za-z0-9]{36,}' },
  { kind: 'github-token', prefix: 'github_pat_', rest: `[A-Za-z0-9]{22}_[A-Za-z0-9]{59}${ENDS}` },
  {
    kind: 'gitlab-token',
    prefix: 'gl(?:pat|ptt|oas|dt|rtr?|cbt|ft|imt|agent|soat|ffct|wt)-',
    rest: '[\\w.-]{20,}',
  },
  { kind: 'registry-token', prefix: 'npm_', rest: `[A-Za-z0-9]{36}${ENDS}` },
  { kind: 'registry-token', prefix: 'pypi-AgE', rest: '[\\w-]{50,}' },
  { kind: 'registry-token', prefix: 'dckr_pat_', rest: `[\\w-]{27}${ENDS}` },
  { kind: 'ai-key', prefix: 'hf_', rest: `[A-Za-z]{34}${ENDS}` },
  { kind: 'ai-key', prefix: 'sk-(?:proj|svcacct|admin)-', rest: '[\\w-]{40,}' },
  { kind: 'ai-key', prefix: 'sk-ant-', rest: '[\\w-]{80,}' },
  { kind: 'ai-key', prefix: 'sk-', rest: `[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}${ENDS}` },
  { kind: 'slack-token', prefix: 'xox[a-z]-', rest: '[A-Za-z0-9-]{20,}' },
  { kind: 'slack-token', prefix: 'xapp-', rest: '[0-9]-[A-Za-z0-9-]{40,}' },
  { kind: 'payment-key', prefix: '[sr]k_(?:live|test)_', rest: '[A-Za-z0-9]{24,}' },
  { kind: 'payment-key', prefix: 'whsec_', rest: '[A-Za-z0-9+/]{32,}={0,2}' },
  { kind: 'service-key', prefix: 'SK', rest: `[0-9a-f]{32}${ENDS}` },
  { kind: 'service-key', prefix: 'SG\\.', rest: `[\\w-]{22}\\.[\\w-]{43}${ENDS}` },
  { kind: 'service-key', prefix: 'dop_v1_', rest: `[0-9a-f]{64}${ENDS}` },
  { kind: 'service-key', prefix: 'hvs\\.', rest: '[\\w-]{60,}' },
  { kind: 'service-key', prefix: 'shpat_', rest: `[0-9a-fA-F]{32}${ENDS}` },
  { kind: 'service-key', prefix: 'dapi', rest: `[0-9a-f]{32}${ENDS}` },
  { kind: 'service-key', prefix: 'AGE-SECRET-KEY-1', rest: `[0-9A-Za-z]{58}${ENDS}` },
  { kind: 'boxkite-key', prefix: 'bxk_(?:live|test)_', rest: '[\\w-]{32,}' },
];

/**
 * A token is no part of a longer word on its left. An escape that is written out (`\n`, `\x00`, `\u003d`, `%3D`) and the end
 * of a colour on a terminal, itself or written out, are none, although they end in a letter.
 */
const ESCAPE = '\\\\(?:[nrt]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})|%[0-9A-Fa-f]{2}';
const COLOUR = '(?:\\x1b|\\\\(?:u001[bB]|x1[bB]|033|e))\\[[0-9;]{0,16}m';
const BEGINS = `(?:(?<![A-Za-z0-9])|(?<=${ESCAPE}|${COLOUR}))`;

const WORD_BEGINS = new RegExp(BEGINS, 'y');
const TOKEN = new RegExp(`${BEGINS}(?:${FORMATS.map(({ prefix, rest }) => `(${prefix}${rest})`).join('|')})`, 'y');
const PREFIX = new RegExp(
  `${BEGINS}(?:${FORMATS.map(({ prefix }) => prefix).join('|')}|eyJ|LS0tLS1CRUdJTi|hooks\\.slack\\.com/services/)`,
  'y',
);
/** The first digits of one whose prefix alone says too little. */
const FEW_DIGITS = /SK[0-9a-f]{1,8}$/;
/** Every beginning of a prefix, to be held back at the end of what has arrived. */
const BEGINNINGS: ReadonlySet<string> = beginnings([
  ...['AKIA', 'ASIA', 'AIza', 'GOCSPX-', 'ya29.', 'ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_', 'github_pat_'],
  ...'glpat- glptt- gloas- gldt- glrt- glrtr- glcbt- glft- glimt- glagent- glsoat- glffct- glwt-'.split(' '),
  ...['npm_', 'pypi-AgE', 'dckr_pat_', 'hf_', 'sk-proj-', 'sk-svcacct-', 'sk-admin-', 'sk-ant-'],
  ...Array.from('abcdefghijklmnopqrstuvwxyz', (letter) => `xox${letter}-`),
  ...[
    'xapp-',
    'sk_live_',
    'sk_test_',
    'rk_live_',
    'rk_test_',
    'whsec_',
    'SK',
    'SG.',
    'dop_v1_',
    'hvs.',
    'shpat_',
    'dapi',
  ],
  ...['AGE-SECRET-KEY-1', 'bxk_live_', 'bxk_test_', 'eyJ', 'LS0tLS1CRUdJTi', 'hooks.slack.com/services/'],
]);
const LONGEST_PREFIX = Math.max(...Array.from(BEGINNINGS, (text) => text.length));
/** Of ASCII, by code. */
const TOKEN_CHARACTERS = Uint8Array.from({ length: 128 }, (_, code) =>
  /[\w.+/=-]/.test(String.fromCharCode(code)) ? 1 : 0,
);
const WEB_TOKEN_PART = /[\w-]*/y;
const BASE64 = /[A-Za-z0-9+/]*={0,2}/y;
const SLACK_PATH = /hooks\.slack\.com\/services\/([\w/-]{8,})/g;

function beginnings(prefixes: readonly string[]): Set<string> {
  return new Set(prefixes.flatMap((prefix) => Array.from(prefix, (_, index) => prefix.slice(0, index + 1))));
}

/** Adds the tokens in a line, in which their prefixes stand at `starts`. */
export function findTokens(line: string, starts: readonly number[], findings: LineFindings): void {
  let end = 0;
  for (const start of starts) {
    TOKEN.lastIndex = start;
    const found = start < end ? null : TOKEN.exec(line);
    if (found === null) continue;
    end = TOKEN.lastIndex;
    const index = found.slice(1).findIndex((text) => text !== undefined);
    findings.hits.push({ start, end, kind: FORMATS[index]?.kind ?? 'service-key' });
  }
  findWebTokens(line, findings);
  findEncodedKeys(line, findings);
  for (const found of line.matchAll(SLACK_PATH)) {
    const end = found.index + found[0].length;
    findings.hits.push({ start: end - (found[1] ?? '').length, end, kind: 'slack-token' });
  }
}

function findWebTokens(line: string, findings: LineFindings): void {
  for (let at = line.indexOf('eyJ'); at >= 0; at = line.indexOf('eyJ', at)) {
    const start = at;
    at = runEnd(WEB_TOKEN_PART, line, at);
    if (!beginsWord(line, start)) continue;
    if (!line.startsWith('.eyJ', at)) continue;
    const second = runEnd(WEB_TOKEN_PART, line, at + 1);
    const third = line.charAt(second) === '.' ? runEnd(WEB_TOKEN_PART, line, second + 1) : second;
    if (third - second <= 16) continue;
    findings.hits.push({ start, end: third, kind: 'json-web-token' });
    at = third;
  }
}

/** Private keys that were encoded as a whole. */
function findEncodedKeys(line: string, findings: LineFindings): void {
  const mark = 'LS0tLS1CRUdJTi';
  // Behind a mark nothing in the same run of characters begins a word.
  for (let start = line.indexOf(mark), end = 0; start >= 0; start = line.indexOf(mark, end)) {
    end = runEnd(BASE64, line, start);
    if (!beginsWord(line, start)) continue;
    if (/^-----BEGIN [A-Z0-9 ]*PRIVATE KEY/.test(decoded(line.slice(start, Math.min(end, start + 96))))) {
      findings.hits.push({ start, end, kind: 'private-key' });
    }
  }
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

function decoded(base64: string): string {
  let out = '';
  for (let at = 0; at + 4 <= base64.length; at += 4) {
    const [a = 0, b = 0, c = 0, d = 0] = Array.from(base64.slice(at, at + 4), (digit) =>
      Math.max(0, DIGITS.indexOf(digit)),
    );
    out += String.fromCharCode((a << 2) | (b >> 4), ((b & 15) << 4) | (c >> 2), ((c & 3) << 6) | d);
  }
  return out;
}

function beginsWord(line: string, at: number): boolean {
  WORD_BEGINS.lastIndex = at;
  return WORD_BEGINS.test(line);
}

function runEnd(pattern: RegExp, line: string, at: number): number {
  pattern.lastIndex = at;
  return at + (pattern.exec(line)?.[0].length ?? 0);
}

/** Where a token begins that goes on to the end of the line, or may; the line's length if there is none. */
export function openToken(line: string): number {
  let from = line.length;
  while (from > 0 && TOKEN_CHARACTERS[line.charCodeAt(from - 1)] === 1) from -= 1;
  for (const start of triggersIn(line, from).tokens) {
    PREFIX.lastIndex = start;
    if (PREFIX.test(line)) return start;
  }
  const few = FEW_DIGITS.exec(line.slice(-TRIGGER_REACH));
  if (few !== null) {
    const start = line.length - few[0].length;
    if (beginsWord(line, start)) return start;
  }
  for (let length = Math.min(LONGEST_PREFIX, line.length - from); length > 0; length -= 1) {
    const start = line.length - length;
    if (BEGINNINGS.has(line.slice(start)) && beginsWord(line, start)) return start;
  }
  return line.length;
}
