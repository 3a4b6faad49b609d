import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

const script = join(import.meta.dirname, '..', 'node', 'prerequisites');

/** A directory to be the whole PATH: the basic tools that every machine has, and programs that print what is given. */
function machine(programs: Readonly<Record<string, string>>): string {
  const directory = mkdtempSync(join(tmpdir(), 'boxkite-path-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  for (const tool of ['sh', 'id', 'uname', 'sed']) symlinkSync(join('/bin', tool), join(directory, tool));
  for (const [name, prints] of Object.entries(programs)) {
    writeFileSync(join(directory, name), `#!/bin/sh\necho '${prints}'\n`, { mode: 0o755 });
  }
  return directory;
}

function check(path: string, env: Readonly<Record<string, string>> = {}) {
  const { status, stdout, stderr } = spawnSync('/bin/sh', [script], { env: { ...env, PATH: path }, encoding: 'utf8' });
  return { status, stdout, stderr };
}

const all = { git: '', make: '', cc: '', npm: '', 'apt-get': '', cargo: 'cargo 1.85.0 (d73d2caf9 2024-12-31)' };

test('a machine with everything passes in silence', () => {
  expect(check(machine(all))).toEqual({ status: 0, stdout: '', stderr: '' });
});

test('every missing program is named at once, with the command that installs it', () => {
  const { status, stderr } = check(machine({ 'apt-get': '' }));
  expect(status).toBe(1);
  for (const hint of ['git', 'make', 'gcc libc6-dev', 'npm']) {
    expect(stderr).toMatch(new RegExp(`apt-get install --yes ${hint}\n`));
  }
  expect(stderr).toContain('cargo 1.85 or newer');
});

const { cargo: _, ...withoutCargo } = all;

test.each([
  ['1.85.0+dfsg3-1', 'apt-get install --yes cargo\n'],
  ['2.0.1', 'apt-get install --yes cargo\n'],
  ['0.66.0+ds1-1', 'https://sh.rustup.rs | sh && . ~/.cargo/env\n'],
  ['1.84.0', 'https://sh.rustup.rs | sh && . ~/.cargo/env\n'],
  ['(none)', 'https://sh.rustup.rs | sh && . ~/.cargo/env\n'],
])('where the system offers cargo %s, the way to a new enough one is named', (candidate, hint) => {
  const { status, stderr } = check(machine({ ...withoutCargo, 'apt-cache': `cargo:\n  Candidate: ${candidate}` }));
  expect(status).toBe(1);
  expect(stderr).toContain(hint);
});

test('a cargo that rustup installed, but this shell does not find, is named as such', () => {
  const home = machine({});
  mkdirSync(join(home, '.cargo', 'bin'), { recursive: true });
  writeFileSync(join(home, '.cargo', 'bin', 'cargo'), '', { mode: 0o755 });
  const { status, stderr } = check(machine(withoutCargo), { HOME: home });
  expect(status).toBe(1);
  expect(stderr).toMatch(/cargo on the PATH.*\n.*: \. ~\/\.cargo\/env\n/);
});

test.each(['cargo 1.65.0', 'cargo 1.84.1 (66221abde 2024-11-19)', 'cargo 0.99.0'])('%s is refused', (version) => {
  const { status, stderr } = check(machine({ ...all, cargo: version }));
  expect(status).toBe(1);
  expect(stderr).toContain('rustup');
});

test.each(['cargo 1.85.0', 'cargo 1.100.0-nightly (x 2027-01-01)', 'cargo 2.0.0'])('%s is accepted', (version) => {
  expect(check(machine({ ...all, cargo: version })).status).toBe(0);
});

test('a manager of toolchains without a toolchain is no cargo', () => {
  const { status, stderr } = check(machine({ ...all, cargo: '' }));
  expect(status).toBe(1);
  expect(stderr).toContain('rustup default stable');
});
