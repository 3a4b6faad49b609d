/**
 * What is allowed is run by dash and by bash, where no program is there but the wrappers: what they then can't find is
 * what would have been started. Everything must be on the list.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { compileAllowlist, judgeCommand } from '../src/index.ts';
import { commandGenerator, LISTED } from './support/command-generator.ts';

/** All in one lane: the others judge by the same code. */
const COUNT = Number(process.env['POLICY_DIFFERENTIAL'] ?? (process.env['BOXKITE_LANE'] === 'root' ? '20000' : '3000'));
const BATCH = 100;
const PRESENT = 'env timeout nice nohup setsid stdbuf xargs find sh dash bash'.split(' ');
/** bash says of a program with a path what it says of the file of a redirection; dash tells them apart. */
const MISSING = [
  /^(?:\S*\/)?(?:dash|sh|bash): (?:line )?\d+: (?:(?:exec|eval): )*([^\s:]+): (?:not found|command not found)$/,
  /^(?:\S*\/)?(?:timeout|nice|nohup|stdbuf|env): (?:failed to run command )?['‘]?([^'’:]+)['’]?: No such file or directory$/,
  /^(?:\S*\/)?setsid: failed to execute ([^:]+): /,
  /^(?:\S*\/)?xargs: ([^:]+): No such file or directory$/,
];
/** find says the same of a starting point that is not there. */
const NOT_FOUND_BY_FIND = /^(?:\S*\/)?find: ['‘]?([^'’:]+)['’]?: No such file or directory$/;
/** Names that a message of `find` or of a shell has for files, not for programs. */
const FILES = new Set(['in', 'out']);

let folder = '';

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'boxkite-differential-'));
  mkdirSync(join(folder, 'bin'));
  for (const name of PRESENT)
    symlinkSync(name === 'sh' ? '/usr/bin/dash' : `/usr/bin/${name}`, join(folder, 'bin', name));
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Programs that a shell would have started for these texts. */
function started(shell: string, texts: readonly string[]): string[] {
  const work = mkdtempSync(join(folder, 'work-'));
  writeFileSync(join(work, 'in'), 'id\n');
  const quoted = texts.map((text) => `( eval '${text.replaceAll("'", "'\\''")}' ) </dev/null >/dev/null`);
  const script = join(work, 'script.sh');
  writeFileSync(script, `exec 2>&3\n${quoted.join('\n')}\nwait\n`);
  const result = spawnSync(`/usr/bin/${shell}`, [script], {
    cwd: work,
    env: { PATH: join(folder, 'bin'), HOME: work, LC_ALL: 'C' },
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    timeout: 60_000,
  });
  if (result.error !== undefined) throw result.error;
  const lines = (result.output[3]?.toString() ?? '').replaceAll(`${script}: `, `${shell}: `).split('\n');
  rmSync(work, { recursive: true, force: true });
  const patterns = texts.some((text) => text.includes('-exec')) ? [...MISSING, NOT_FOUND_BY_FIND] : MISSING;
  return lines.flatMap((line) =>
    patterns.map((pattern) => pattern.exec(line)?.[1] ?? '').filter((name) => name !== ''),
  );
}

function unlisted(shell: string, texts: readonly string[]): string[] {
  return started(shell, texts).filter((name) => !LISTED.includes(name) && !FILES.has(name));
}

it.each(['dash', 'bash'])('%s is seen to look for what it starts', (shell) => {
  const texts = [
    'id',
    'true; i""d',
    "sh -c 'id'",
    'timeout 5 id',
    'nice id',
    'env id',
    'xargs id < in',
    'nohup id',
    'setsid -w id',
  ];
  for (const text of [...texts, 'find . -maxdepth 0 -exec id \\;', 'stdbuf -o0 id', 'eval id', 'exec id', 'x=id; $x']) {
    expect(unlisted(shell, [text]), text).toEqual(['id']);
  }
});

it(`allows none of ${COUNT} generated commands that starts what is not listed`, { timeout: 600_000 }, () => {
  const list = compileAllowlist({ enforce: 'text', commands: LISTED });
  const next = commandGenerator(20_261_130);
  const texts = Array.from({ length: COUNT }, next);
  const allowed = texts.filter((text) => judgeCommand(list, text).verdict === 'allow');
  expect(allowed.length).toBeGreaterThan(COUNT / 20);
  const found: string[] = [];
  for (let at = 0; at < allowed.length; at += BATCH) {
    const batch = allowed.slice(at, at + BATCH);
    for (const shell of ['dash', 'bash']) {
      if (unlisted(shell, batch).length === 0) continue;
      for (const text of batch) {
        for (const name of unlisted(shell, [text])) found.push(`${shell} started ${name}: ${JSON.stringify(text)}`);
      }
    }
  }
  expect(found).toEqual([]);
});
