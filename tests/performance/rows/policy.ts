/** The decisions of packages/policy: judging a command beside its parse, redaction beside a search. */
import { compileAllowlist, createByteRedactor, judgeCommand, KnownValues } from '@boxkite/policy';
import { parse } from 'unbash';
import { type Comparison, compare, type Round } from '../comparison.ts';
import type { Row } from '../row.ts';

const COMMAND =
  'cd /workspace && ls -la && python3 script.py 2>&1 | tail -5; for f in a b c; do grep -n "$f" notes.txt; done';
const LARGE = 65_536;
const CHUNK = 65_536;
const SECRETS = 20;
const list = compileAllowlist(['cd', 'ls', 'python3', 'tail', 'grep']);

/** ms of one call, over enough calls to be measured. */
function timeOf(act: () => unknown, calls: number): number {
  const start = performance.now();
  for (let call = 0; call < calls; call += 1) act();
  return (performance.now() - start) / calls;
}

/** The baseline before and after the measured side, in each round. */
function interleaved(rounds: number, calls: number, subject: () => unknown, baseline: () => unknown): Round[] {
  timeOf(subject, calls);
  timeOf(baseline, calls);
  return Array.from({ length: rounds }, () => {
    const before = timeOf(baseline, calls);
    const measured = timeOf(subject, calls);
    return { subject: measured, baseline: [before, timeOf(baseline, calls)] as const };
  });
}

/** Time of a decision about a command beside that of the grammar alone. */
export const policyCommands: Row = {
  name: 'policy-commands',
  source: 'tests/performance/rows/policy.ts',
  what: 'judging a typical command; 64 KiB of commands',
  baseline: 'the parse of the same text by the same grammar',
  run: ({ rounds, scale }) => {
    const large = `${COMMAND}\n`.repeat(Math.floor(LARGE / (COMMAND.length + 1)));
    for (const text of [COMMAND, large]) {
      const { verdict, reason } = judgeCommand(list, text);
      if (verdict !== 'allow') throw new TypeError(`the command is refused: ${reason}`);
    }
    const measure = (text: string, calls: number): Round[] =>
      interleaved(
        rounds,
        Math.max(2, Math.round(calls * scale)),
        () => judgeCommand(list, text),
        () => parse(text),
      );
    return Promise.resolve([
      compare({ name: 'typical', unit: 'ms', better: 'lower', promise: 3, stretch: 2 }, measure(COMMAND, 20_000)),
      compare({ name: '64 KiB', unit: 'ms', better: 'lower', promise: 5, stretch: 3 }, measure(large, 100)),
    ]);
  },
};

/** A fixed sequence of numbers in [0, 1), so that every run measures the same bytes. */
function sequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const WORDS =
  'the build step compiled in seconds with warnings and then tests passed for module index of error at line node file path'.split(
    ' ',
  );

function buildLog(random: () => number): Buffer {
  let text = '';
  while (text.length < CHUNK) {
    let line = `[${Math.floor(random() * 1e6)}]`;
    while (line.length < 60) line += ` ${WORDS[Math.floor(random() * WORDS.length)] ?? ''}`;
    text += `${line}\n`;
  }
  return Buffer.from(text).subarray(0, CHUNK);
}

/** Texts of which each line has something to look at, or one that is made to be slow. */
const HARD_TEXTS: Readonly<Record<string, string>> = {
  'labels without values': 'password=',
  'labels with quotes': 'password="',
  'labels with paths': './password=1',
  'beginnings of web tokens': 'eyJ-',
  'beginnings of tokens': 'ghp_',
  addresses: '://a:b@',
  cookies: 'cookie: a=b;',
  dashes: '-',
  'beginnings of keys': '-----BEGIN ',
  'encoded keys': 'LS0tLS1CRUdJTi',
};

/** Redaction of a log by value, format and label, and its growth on text that is made to be slow. */
export const policyRedaction: Row = {
  name: 'policy-redaction',
  source: 'tests/performance/rows/policy.ts',
  what: `redaction of a log by ${SECRETS} known secrets, formats and labels; 1 MiB of the hardest text, per byte`,
  baseline: 'Buffer.toString() and one search by a regular expression of the secrets; 256 KiB of the same text',
  run: ({ rounds, scale }) => {
    const random = sequence(7);
    const secrets = Array.from({ length: SECRETS }, (_, index) =>
      Array.from({ length: 20 + index * 3 }, () => Math.floor(random() * 36).toString(36)).join(''),
    );
    const known = new KnownValues(new Map(secrets.map((secret, index) => [`SECRET_${index}`, secret])));
    const log = buildLog(random);
    const search = new RegExp(secrets.join('|'), 'g');
    const redactor = createByteRedactor(known);
    const measured = interleaved(
      rounds,
      Math.max(2, Math.round(200 * scale)),
      () => redactor.pushParts(log),
      () => {
        search.lastIndex = 0;
        return search.test(log.toString());
      },
    );
    const rates = measured.map(({ subject, baseline: [one, two] }) => ({
      subject: CHUNK / 1000 / subject,
      baseline: [CHUNK / 1000 / one, CHUNK / 1000 / two] as const,
    }));
    return Promise.resolve([
      compare({ name: 'rate', unit: 'MB/s', better: 'higher', promise: 0.4, stretch: 0.8 }, rates),
      growth(known, rounds),
    ]);
  },
};

/** Time per byte of four times as much of the text that grows most. */
function growth(known: KnownValues, rounds: number): Comparison {
  const all = Object.values(HARD_TEXTS).map((text) => {
    const once = (factor: number) => () => {
      const redactor = createByteRedactor(known);
      for (let count = 0; count < factor; count += 1) redactor.pushParts(hardChunk(text));
      redactor.flush();
    };
    const [long, short] = [once(16), once(4)];
    long();
    return compare(
      { name: 'growth', unit: 'ms', better: 'lower', promise: 1.5, stretch: 1.2 },
      Array.from({ length: rounds }, () => {
        const before = timeOf(short, 1);
        const subject = timeOf(long, 1) / 4;
        return { subject, baseline: [before, timeOf(short, 1)] as const };
      }),
    );
  });
  const [first, ...rest] = all;
  if (first === undefined) throw new TypeError('there is no text');
  return rest.reduce((worst, other) => (other.value > worst.value ? other : worst), first);
}

/** 64 KiB of a text over and over. */
function hardChunk(text: string): Buffer {
  return Buffer.from(text.repeat(Math.ceil(CHUNK / text.length))).subarray(0, CHUNK);
}
