/** `boxkite policy`: what it prints and answers. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { call as callWith, FakeIo, type Outcome, services } from './support/fake-io.ts';

/** No command here needs a server. */
function call(args: readonly string[], io = new FakeIo()): Promise<Outcome> {
  return callWith(args, services(null), io);
}

let folder = '';
let good = '';
let wrong = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'boxkite-policy-'));
  good = join(folder, 'good.json');
  wrong = join(folder, 'wrong.json');
  await writeFile(
    good,
    '{"enforce": "text", "commands": ["grep", "head", {"command": "git", "args_allow": ["status"]}]}',
  );
  await writeFile(wrong, '[\n  "grep",\n  {"command": "git", "args_alow": ["status"]}\n]');
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

test('check says what a list allows', async () => {
  const people = await call(['policy', 'check', good]);
  expect(people).toMatchObject({ status: 0, err: '' });
  expect(people.out).toBe(`${good} allows grep, head, git; it asks for enforcement by the text alone\n`);
  const programs = await call(['policy', 'check', '--json', good]);
  expect(JSON.parse(programs.out)).toEqual({
    valid: true,
    file: good,
    enforce: 'text',
    commands: ['grep', 'head', 'git'],
  });
});

test('check names file, line and key of a fault', async () => {
  const { status, out, err } = await call(['policy', 'check', wrong]);
  expect({ status, out }).toEqual({ status: 2, out: '' });
  expect(err).toContain(`${wrong}:3: commands[1].args_alow is no key of a rule: command, args_allow, args_deny`);
  const json = await call(['policy', 'check', wrong, '--json']);
  expect(JSON.parse(json.out)).toMatchObject({
    error: { code: 'invalid_request', details: { file: wrong, line: 3, key: 'commands[1].args_alow' } },
  });
});

test('check says that a file is missing', async () => {
  const { status, err } = await call(['policy', 'check', join(folder, 'none.json')]);
  expect(status).toBe(2);
  expect(err).toContain('(ENOENT)');
});

test('explain lets a listed command pass', async () => {
  const answer = await call(['policy', 'explain', '--file', good, '--', 'grep -n x a.txt | head']);
  expect(answer).toEqual({ status: 0, out: 'allow: every program is on the list\n', err: '' });
});

test('explain points at what is refused', async () => {
  const { status, out } = await call(['policy', 'explain', '--file', good, '--', 'grep x a.txt\ngrep y; curl b']);
  expect(status).toBe(1);
  expect(out).toBe('refuse: `curl` is not on the list: git, grep, head\n  grep y; curl b\n          ^\n');
  const json = await call(['policy', 'explain', '--json', '--file', good, '--', 'git', 'push']);
  expect(json.status).toBe(1);
  expect(JSON.parse(json.out)).toMatchObject({ verdict: 'refuse', program: 'git', at: 0, enforce: 'text' });
});

test('explain takes the list of a deployment', async () => {
  const io = new FakeIo({ env: { SANDBOX_ALLOWED_COMMANDS: '["ls"]' } });
  expect((await call(['policy', 'explain', '--', 'ls'], io)).status).toBe(0);
  const bad = new FakeIo({ env: { SANDBOX_ALLOWED_COMMANDS: '["ls",\n ""]' } });
  const { status, err } = await call(['policy', 'explain', '--', 'ls'], bad);
  expect(status).toBe(2);
  expect(err).toContain('SANDBOX_ALLOWED_COMMANDS:2: commands[1] is blank');
  const blank = new FakeIo({ env: { SANDBOX_ALLOWED_COMMANDS: ' \n' } });
  expect((await call(['policy', 'explain', '--', 'ls'], blank)).err).toContain('no list is named');
});

test.each([
  [['policy'], 'policy needs a command'],
  [['policy', 'chek', 'x'], 'Did you mean `policy check`?'],
  [['policy', 'check'], 'no FILE is given'],
  [['policy', 'explain', '--', 'ls'], 'no list is named'],
])('%j is a mistake: %s', async (args, text) => {
  const { status, err } = await call(args);
  expect(status).toBe(2);
  expect(err).toContain(text);
});

test('help names both commands', async () => {
  const { status, out } = await call(['policy', '--help']);
  expect(status).toBe(0);
  expect(out).toContain('policy check FILE');
  expect((await call(['help', 'policy', 'explain'])).out).toContain('Usage: boxkite policy explain');
});
