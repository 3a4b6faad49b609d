import { type FilteredText, PairFilter } from './pair-filter.ts';

/** What a line may hold, as bits: which searches are worth their time. */
export const TOPIC = { token: 1, key: 2, address: 4, label: 8, header: 16, cookie: 32, curl: 64, query: 128 } as const;

/** Whether a label has its case; prefixes of tokens have. */
const EXACT = TOPIC.token | TOPIC.key | TOPIC.address | TOPIC.curl;

/** A text without one of these holds no hit: prefixes of tokens, and labels. */
const TRIGGERS: readonly (readonly [topic: number, texts: readonly string[]])[] = [
  [
    TOPIC.token,
    [
      ...['AKIA', 'ASIA', 'AIza', 'GOCSPX-', 'ya29.', 'ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_', 'github_pat_'],
      ...'glpat- glptt- gloas- gldt- glrt- glrtr- glcbt- glft- glimt- glagent- glsoat- glffct- glwt-'.split(' '),
      ...[
        'npm_',
        'pypi-AgE',
        'dckr_pat_',
        'hf_',
        'sk-',
        'xox',
        'xapp-',
        'sk_live_',
        'sk_test_',
        'rk_live_',
        'rk_test_',
      ],
      ...['whsec_', 'SG.', 'dop_v1_', 'hvs.', 'shpat_', 'dapi', 'AGE-SECRET-KEY-1', 'bxk_live_', 'bxk_test_'],
      ...['eyJ', 'LS0tLS1CRUdJTi', 'hooks.slack.com'],
      ...Array.from('0123456789abcdef', (digit) => `SK${digit}`),
    ],
  ],
  [TOPIC.key, ['-----BEGIN ']],
  [TOPIC.address, ['://']],
  [TOPIC.label, ['password', 'passwd', 'passphrase', 'pwd', 'secret', 'token', 'credential', 'credentials', 'key']],
  [TOPIC.header, ['authorization', '"auth"']],
  [TOPIC.cookie, ['cookie']],
  [TOPIC.curl, ['curl']],
  [TOPIC.query, ['sig=', 'x-amz-']],
];

interface Trigger {
  readonly topic: number;
  readonly text: string;
  /** Its characters, folded unless their case counts. */
  readonly units: readonly number[];
  /** Where in it a pair stands. */
  readonly offset: number;
}

/** Longer than any trigger and what must stand behind it. */
export const TRIGGER_REACH = 20;

/** Hexadecimal digits behind `SK` that tell a token from letters of encoded bytes. */
const DIGITS_OF_SK = 8;

/**
 * Triggers by pairs of their characters. Every text of three characters has a pair at an even index and one at an odd
 * one, so that only every other pair of a stream is looked up.
 */
const BY_PAIR: (readonly Trigger[] | undefined)[] = Array.from({ length: 1 << 16 });
const FILTER = new PairFilter();
/** Letters behind which a label ends: nothing else can stand between it and its value. */
const ENDS = bytesOf('\\"\'`] \t=:>-%');
/** What may stand before `key`: another word says which key it is, with at most a blank or a mark between. */
const BEFORE_KEY = bytesOf('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-');
const LETTERS = bytesOf('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ');
const LOWER_HEX = bytesOf('0123456789abcdef');
/** Letters of prose from the most frequent on; what is not among them is rare. */
const FREQUENT = ' etaoinsrhldcumfpgwybvk';

function bytesOf(characters: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const character of characters) table[character.charCodeAt(0)] = 1;
  return table;
}

/** Folds the case of letters, and little else; what it confuses only costs time. */
function fold(unit: number): number {
  return (unit | 0x20) & 0xff;
}

function frequency(character: string): number {
  const rank = FREQUENT.indexOf(character.toLowerCase());
  // Prose has few capitals.
  return rank < 0 || character !== character.toLowerCase() ? 1 : FREQUENT.length - rank + 1;
}

/** Where in a trigger the two pairs begin that prose has least. */
function rarestPairs(text: string): number {
  let best = 0;
  let least = Infinity;
  for (let at = 0; at + 2 < text.length; at += 1) {
    const [one = 0, two = 0, three = 0] = Array.from(text.slice(at, at + 3), frequency);
    if (two * (one + three) >= least) continue;
    least = two * (one + three);
    best = at;
  }
  return best;
}

function cases(unit: number, exact: boolean): readonly number[] {
  return exact ? [unit] : [unit, unit & ~0x20];
}

function addPair(trigger: Trigger, exact: boolean): void {
  const [one = 0, two = 0] = trigger.units.slice(trigger.offset);
  for (const first of cases(one, exact)) {
    for (const second of cases(two, exact)) {
      const pair = first | (second << 8);
      if (BY_PAIR[pair]?.includes(trigger) === true) continue;
      BY_PAIR[pair] = [...(BY_PAIR[pair] ?? []), trigger];
      FILTER.addPair(pair);
    }
  }
}

for (const [topic, texts] of TRIGGERS) {
  const exact = (topic & EXACT) !== 0;
  for (const text of texts) {
    const units = Array.from(text, (character) => (exact ? character.charCodeAt(0) : fold(character.charCodeAt(0))));
    const offset = rarestPairs(text);
    FILTER.addTriple(units.slice(offset, offset + 3));
    addPair({ topic, text, units, offset }, exact);
    addPair({ topic, text, units, offset: offset + 1 }, exact);
  }
}

/** A text by its units, of which the lowest eight bits count. */
type UnitAt = (index: number) => number;

/** Index from `from` on and below `to` at which the first trigger begins that is complete, or -1. */
export function nextTrigger(text: FilteredText, from: number, to = text.units.length): number {
  const { units } = text;
  return firstTrigger(
    (index) => units[index] as number,
    units.length,
    from,
    to,
    (at, end) => FILTER.next(text, at, end),
  );
}

/** The same for text. */
export function textTrigger(text: string, from = 0, to = text.length): number {
  return firstTrigger(
    (index) => text.charCodeAt(index) & 0xff,
    text.length,
    from,
    to,
    (at, end) => FILTER.nextInText(text, at, end),
  );
}

function firstTrigger(
  unitAt: UnitAt,
  length: number,
  from: number,
  to: number,
  nextPair: (at: number, end: number) => number,
): number {
  let best = -1;
  let last = length - 1;
  for (let at = nextPair(from, last); at < last; at = nextPair(at + 2, last)) {
    for (const trigger of BY_PAIR[unitAt(at) | (unitAt(at + 1) << 8)] ?? []) {
      const start = at - trigger.offset;
      if (start < from || start >= to || (best >= 0 && start >= best) || !isThere(trigger, unitAt, length, start))
        continue;
      // Another one may begin before it and have its pair behind it.
      if (best < 0) last = Math.min(last, at + TRIGGER_REACH);
      best = start;
    }
  }
  return best;
}

/** What a line may hold. */
export interface LineTriggers {
  readonly topics: number;
  /** Where prefixes of tokens stand, in order. */
  readonly tokens: readonly number[];
}

/** Everything that a line may hold from an index on. */
export function triggersIn(line: string, from = 0): LineTriggers {
  const unitAt = (index: number): number => line.charCodeAt(index) & 0xff;
  const last = line.length - 1;
  const tokens: number[] = [];
  let topics = 0;
  for (let at = FILTER.nextInText(line, from, last); at < last; at = FILTER.nextInText(line, at + 2, last)) {
    for (const trigger of BY_PAIR[unitAt(at) | (unitAt(at + 1) << 8)] ?? []) {
      const start = at - trigger.offset;
      if (trigger.topic !== TOPIC.token && (topics & trigger.topic) !== 0) continue;
      if (start < from || !isThere(trigger, unitAt, line.length, start)) continue;
      topics |= trigger.topic;
      if (trigger.topic === TOPIC.token) tokens.push(start);
    }
  }
  return { topics, tokens: [...new Set(tokens)].sort((one, two) => one - two) };
}

function isThere({ topic, text, units }: Trigger, unitAt: UnitAt, length: number, start: number): boolean {
  const end = start + units.length;
  if (start < 0 || end > length) return false;
  const exact = (topic & EXACT) !== 0;
  for (let at = 0; at < units.length; at += 1) {
    const unit = unitAt(start + at);
    if ((exact ? unit : fold(unit)) !== units[at]) return false;
  }
  if (topic === TOPIC.label)
    return end < length && ENDS[unitAt(end)] === 1 && (text !== 'key' || isNamed(unitAt, start));
  return !text.startsWith('SK') || isHex(unitAt, end, start + 2 + DIGITS_OF_SK, length);
}

/** Whether a word before `key` may say which one it is. */
function isNamed(unitAt: UnitAt, start: number): boolean {
  if (start === 0) return false;
  const before = unitAt(start - 1);
  return BEFORE_KEY[before] === 1 || (before === 0x20 && start > 1 && LETTERS[unitAt(start - 2)] === 1);
}

function isHex(unitAt: UnitAt, from: number, to: number, length: number): boolean {
  if (to > length) return false;
  for (let at = from; at < to; at += 1) if (LOWER_HEX[unitAt(at)] === 0) return false;
  return true;
}
