/** The four decisions of packages/policy. */
import {
  compileAllowlist,
  createByteRedactor,
  createRedactor,
  judgeCommand,
  judgeDestination,
  KnownValues,
  resolveSandboxPath,
} from '@boxkite/policy';
import { commandGenerator, LISTED } from '../../packages/policy/test/support/command-generator.ts';
import { type FuzzTarget, mixture, pick, require } from './target.ts';

/** Decisions about one input of 64 KiB take a few ms; a step that is not linear would take minutes. */
const SLOW_MS = 2_000;
const list = compileAllowlist({ enforce: 'text', commands: LISTED });
const longer = compileAllowlist({ enforce: 'text', commands: [...LISTED, 'id', 'rm', 'l'] });
const SIGNS = [
  'a',
  ' ',
  '\n',
  ';',
  '&',
  '|',
  '(',
  ')',
  '{',
  '}',
  '<',
  '>',
  '"',
  "'",
  '\\',
  '`',
  '$',
  '#',
  '[',
  ']',
  '*',
  '=',
  '!',
];

const commands: FuzzTarget = {
  name: 'judgeCommand',
  once(random) {
    const made = commandGenerator(Math.floor(random() * 2 ** 32))();
    const text = random() < 0.5 ? made : random() < 0.9 ? mixture(random, [...SIGNS, ...LISTED], 30) : repeated(random);
    const start = performance.now();
    const { verdict, reason, at } = judgeCommand(list, text);
    require(performance.now() - start < SLOW_MS, 'slow', text.slice(0, 100));
    require(reason.length > 5 && reason !== 'the command is not understood', 'no reason', text);
    require(at === null || (at >= 0 && at <= text.length), 'a place outside the text', text);
    if (verdict === 'allow') require(judgeCommand(longer, text).verdict === 'allow', 'not monotone', text);
  },
};

function repeated(random: () => number): string {
  const part = mixture(random, [...SIGNS, 'if ', 'ls ', 'sh -c ', '<<E '], 6) || '(';
  return part.repeat(Math.floor((random() * 65_000) / part.length));
}

const known = new KnownValues({ NAME: 'correct-horse-battery', OTHER: 'first\nsecond line' });
const TEXTS = [
  ...[
    'password',
    'token=',
    'api_key: ',
    '"',
    "'",
    '\\"',
    ' ',
    '\n',
    '\r\n',
    '-----',
    'BEGIN ',
    'END ',
    'PRIVATE KEY',
    '://',
    '@',
    ':',
  ],
  ...[
    'gh',
    'p_',
    'sk-ant-',
    'eyJ',
    '.',
    'A1b2C3d4E5f6G7h8',
    'correct-horse-battery',
    'first\nsecond',
    'Cookie: a=',
    'curl -u ',
    'SK',
  ],
  ...[
    'x'.repeat(64),
    'Authorization: Bearer ',
    '<',
    '>',
    '/',
    '--',
    'LS0tLS1CRUdJTiBQUklWQVRFIEtFWQ==',
    '\u00e9',
    '\u{1f600}',
    '=',
    '9',
  ],
];

const redaction: FuzzTarget = {
  name: 'createRedactor',
  once(random) {
    const text =
      random() < 0.98 ? mixture(random, TEXTS, 40) : pick(random, TEXTS).repeat(Math.floor(random() * 4_000));
    const start = performance.now();
    const whole = redact(known, [text]);
    require(performance.now() - start < SLOW_MS, 'slow', text.slice(0, 100));
    const parts: string[] = [];
    for (let at = 0; at < text.length; ) {
      const length = 1 + Math.floor(random() ** 3 * text.length);
      parts.push(text.slice(at, at + length));
      at += length;
    }
    require(redact(known, parts) === whole, 'depends on the cuts', parts);
    require(!whole.includes('correct-horse-battery'), 'a known value is left', text);
    if (!text.isWellFormed()) return;
    const redactor = createByteRedactor(known);
    const bytes = [...parts.map((part) => Uint8Array.from(redactor.push(Buffer.from(part)))), redactor.flush()];
    // Columns, at which tools break text, are counted in characters or in bytes.
    if (parts.every((part) => part.isWellFormed()) && (!text.includes('\n') || /^[\0-\x7f]*$/.test(text))) {
      require(Buffer.concat(bytes).toString() === whole, 'differs in bytes', text);
    }
  },
};

function redact(values: KnownValues, parts: readonly string[]): string {
  const redactor = createRedactor(values);
  return parts.map((part) => redactor.push(part)).join('') + redactor.flush();
}

const HOSTS = [
  'a',
  'example',
  '.',
  'com',
  '-',
  '_',
  '*.',
  '[',
  ']',
  ':',
  '1',
  '0x',
  '127.0.0.1',
  '8.8.8.8',
  '::',
  'ffff',
  '%',
  'xn--',
  'local',
];

const destinations: FuzzTarget = {
  name: 'judgeDestination',
  once(random) {
    const host = mixture(random, HOSTS, 8);
    const allow = [host, mixture(random, HOSTS, 8), `*.${mixture(random, HOSTS, 4)}`];
    const resolved = [pick(random, ['93.184.216.34', '10.0.0.1', '::1', '2606:4700::1', mixture(random, HOSTS, 5)])];
    const { verdict, reason } = judgeDestination({ allow, host, port: 443, resolved });
    require(reason.length > 5, 'no reason', { allow, host, resolved });
    require(judgeDestination({ allow: [], host, port: 443, resolved }).verdict ===
      'deny', 'an empty list allows', host);
    if (verdict !== 'allow') return;
    require(!/^(?:10|127)\.|^\[?::/.test(resolved[0] ?? ''), 'leads inside', { host, resolved });
    require(/^[\x21-\x7e]+$/.test(host), 'a host outside the grammar', host);
  },
};

const PARTS = [
  '/',
  '..',
  '.',
  'workspace',
  '/workspace',
  '/tmp',
  'uploads',
  '/mnt/user-data',
  'skills',
  ' ',
  '\\',
  'a',
  '\u00e9',
  '%2e',
  '~',
];
const ROOTS = /^\/(?:workspace|tmp|mnt\/user-data\/(?:uploads|outputs)|mnt\/skills)(?:\/|$)/;

const paths: FuzzTarget = {
  name: 'resolveSandboxPath',
  once(random) {
    const path = mixture(random, PARTS, 12);
    const op = random() < 0.5 ? 'read' : 'write';
    const answer = resolveSandboxPath(path, op);
    if ('error' in answer) return require(answer.reason.length > 5, 'no reason', path);
    require(ROOTS.test(answer.ok) && !/(?:^|\/)\.{0,2}(?:\/|$)/.test(answer.ok.slice(1)), 'leads outside', {
      path,
      answer,
    });
    const again = resolveSandboxPath(answer.ok, op);
    require('ok' in again && again.ok === answer.ok, 'means something else the second time', { path, answer, again });
  },
};

/** A target per function. */
export const policyTargets: readonly FuzzTarget[] = [commands, redaction, destinations, paths];
