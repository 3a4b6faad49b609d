/** Lists of programs in roots that are not the host's: what their files say decides. */
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  cpSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import { lane, run, sh, startRunner, type TestRunner } from '@boxkite/testing';
import { afterAll, describe, expect, it } from 'vitest';

/** A root with some of the host's programs and what they are linked with. */
class Root {
  readonly path = mkdtempSync(join(tmpdir(), 'boxkite-root-'));

  constructor(...programs: readonly string[]) {
    chmodSync(this.path, 0o755);
    for (const directory of ['usr/bin', 'usr/lib', 'etc']) mkdirSync(join(this.path, directory), { recursive: true });
    for (const link of ['bin', 'lib', 'lib64'])
      symlinkSync(link === 'bin' ? 'usr/bin' : 'usr/lib', join(this.path, link));
    for (const program of programs) this.add(program);
  }

  /** Copies a program of the host to the same name. */
  add(program: string): void {
    const from = realpathSync(`/usr/bin/${program}`);
    copyFileSync(from, join(this.path, 'usr/bin', program));
    const text = execFileSync('ldd', [from], { encoding: 'utf8' });
    for (const [, library = ''] of text.matchAll(/(\/\S+) \(0x/g)) this.library(library);
  }

  library(from: string, to = join('usr/lib', from.slice(from.lastIndexOf('/') + 1))): void {
    mkdirSync(dirname(join(this.path, to)), { recursive: true });
    copyFileSync(realpathSync(from), join(this.path, to));
    chmodSync(join(this.path, to), 0o755);
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.path, path)), { recursive: true });
    writeFileSync(join(this.path, path), text, { mode: 0o755 });
  }
}

const roots: Root[] = [];
function root(...programs: readonly string[]): Root {
  const made = new Root(...programs);
  roots.push(made);
  return made;
}

async function outcome(runner: TestRunner, programs: readonly string[]): Promise<unknown> {
  try {
    await using sandbox = await runner.create({ programs: { programs } });
    return sandbox.effective.programs.count;
  } catch (error) {
    if (error instanceof BoxkiteError) return error.details;
    throw error;
  }
}

async function exitOf(sandbox: Parameters<typeof run>[0], argv: readonly string[]): Promise<number | string> {
  try {
    return (await run(sandbox, argv)).record.exit_code ?? -1;
  } catch (error) {
    return error instanceof BoxkiteError ? error.code : String(error);
  }
}

afterAll(() => {
  for (const { path } of roots) rmSync(path, { recursive: true, force: true });
});

describe(`lists in roots of their own, ${lane}`, () => {
  it('follow links, hard links and scripts as the kernel does', async () => {
    const { path, write } = bound(root('sh', 'cat', 'ls', 'env', 'id', 'true'));
    symlinkSync('cat', join(path, 'usr/bin/linked'));
    symlinkSync('/usr/bin/../bin/linked', join(path, 'usr/bin/far'));
    linkSync(join(path, 'usr/bin/id'), join(path, 'usr/bin/hard'));
    symlinkSync('loop', join(path, 'usr/bin/loop'));
    symlinkSync('/workspace/x', join(path, 'usr/bin/outside'));
    write('usr/bin/shell-script', '#!/bin/sh\necho script\n');
    write('usr/bin/plain-script', 'echo plain\n');
    write('usr/bin/env-script', '#!/usr/bin/env ls\n');
    write('usr/bin/nowhere-script', '#!/usr/bin/nowhere\n');
    write('usr/bin/relative-script', '#!sh\n');
    await using runner = await startRunner({ roots: [path] });
    await using sandbox = await runner.create({
      programs: { programs: ['far', 'shell-script', 'plain-script', 'hard', 'loop', 'outside'] },
    });
    // One file by two names is one program, whichever name the list has.
    expect(await exitOf(sandbox, ['linked', '/dev/null'])).toBe(0);
    expect(await exitOf(sandbox, ['cat', '/dev/null'])).toBe(0);
    expect(await exitOf(sandbox, ['hard'])).toBe(0);
    // The other name of the same file is not on the list.
    expect(await exitOf(sandbox, ['id'])).toBe('not_executable');
    expect((await sh(sandbox, 'shell-script; plain-script; ls; id')).stdout).toBe('script\nplain\n');
    expect(await outcome(runner, ['env-script'])).toMatchObject({
      reason: 'interpreter_not_listed',
      interpreter: '/usr/bin/env',
    });
    expect(await outcome(runner, ['env-script', 'env'])).toMatchObject({
      reason: 'interpreter_not_listed',
      interpreter: 'ls',
    });
    expect(await outcome(runner, ['env-script', 'env', 'ls'])).toBe(4);
    expect(await outcome(runner, ['nowhere-script'])).toMatchObject({ reason: 'interpreter_not_listed' });
    expect(await outcome(runner, ['relative-script'])).toMatchObject({ reason: 'not_a_program' });
  });

  it('refuse what is no program, and what lacks a library', async () => {
    const { path, write } = bound(root('sh', 'ls'));
    write('usr/bin/empty', '');
    write('usr/bin/binary', '\0\x01\x02');
    write('usr/bin/elf', `\x7fELF${'\x02'.repeat(100)}`);
    mkdirSync(join(path, 'usr/bin/directory'));
    execFileSync('mkfifo', [join(path, 'usr/bin/pipe')]);
    chmodSync(join(path, 'usr/bin/pipe'), 0o755);
    const linked = execFileSync('ldd', ['/usr/bin/ls'], { encoding: 'utf8' });
    const library = /(\S+) => /.exec(linked.replace(/.*vdso.*\n/, ''))?.[1] ?? '';
    rmSync(join(path, 'usr/lib', library));
    await using runner = await startRunner({ roots: [path] });
    for (const program of ['empty', 'binary', 'elf']) {
      expect(await outcome(runner, [program]), program).toMatchObject({ reason: 'not_a_program', program });
    }
    expect(await outcome(runner, ['/usr/bin/pipe'])).toMatchObject({ reason: 'not_a_program' });
    expect(await outcome(runner, ['directory', 'pipe'])).toBe(1);
    expect(await outcome(runner, ['ls'])).toMatchObject({ reason: 'library_missing', program: 'ls', library });
  });

  it('find libraries by RPATH of their own directory, and modules of an interpreter below its prefix', async () => {
    const made = root('sh', 'cat');
    mkdirSync(join(made.path, 'opt/py/bin'), { recursive: true });
    copyFileSync(realpathSync('/usr/bin/cat'), join(made.path, 'opt/py/bin/python3.11'));
    const library = /=> (\/\S+libc\S+) /.exec(execFileSync('ldd', ['/usr/bin/cat'], { encoding: 'utf8' }))?.[1] ?? '';
    made.library(library, 'opt/py/lib/python3.11/lib-dynload/module.so');
    made.library(library, 'opt/py/lib/python3.11/site-packages/deep/er/other.cpython-311.so');
    made.library(library, 'opt/py/lib/python3.12/other-version.so');
    made.library(library, 'opt/other.so');
    made.write('opt/py/lib/python3.11/site-packages/text.so', 'INPUT(x)');
    await using runner = await startRunner({ roots: [made.path] });
    await using sandbox = await runner.create({ programs: { programs: ['/opt/py/bin/python3.11', 'cat'] } });
    const { stdout } = await run(sandbox, ['cat', '/proc/self/mountinfo']);
    const code = stdout
      .split('\n')
      .map((line) => line.split(' '))
      .filter((fields) => fields.length > 5 && !(fields[5] ?? '').includes('noexec'))
      .map((fields) => fields[4] ?? '');
    expect(code.filter((file) => file.startsWith('/opt')).toSorted()).toEqual([
      '/opt/py/bin/python3.11',
      '/opt/py/lib/python3.11/lib-dynload/module.so',
      '/opt/py/lib/python3.11/site-packages/deep/er/other.cpython-311.so',
    ]);
  });

  it('find a library that lies in several directories in the one that the loader takes', async () => {
    const made = root('sh', 'cat');
    rmSync(join(made.path, 'lib64'));
    cpSync(join(made.path, 'usr/lib'), join(made.path, 'lib64'), { recursive: true });
    await using runner = await startRunner({ roots: [made.path] });
    await using sandbox = await runner.create({ programs: { programs: ['cat'] } });
    expect(await exitOf(sandbox, ['cat', '/dev/null'])).toBe(0);
  });

  it('refuse a shell, or a program, that is one of many in one file', async () => {
    const made = root('sh', 'cat');
    // What such a file says of itself is behind its code, wherever that is.
    appendFileSync(join(made.path, 'usr/bin/cat'), 'It is a multi-call binary that combines many common utilities.');
    renameSync(join(made.path, 'usr/bin/cat'), join(made.path, 'usr/bin/hidden'));
    symlinkSync('hidden', join(made.path, 'usr/bin/wget'));
    const other = root('sh', 'cat');
    renameSync(join(other.path, 'usr/bin/sh'), join(other.path, 'usr/bin/busybox'));
    symlinkSync('busybox', join(other.path, 'usr/bin/sh'));
    await using runner = await startRunner({ roots: [made.path, other.path] });
    expect(await outcome(runner, ['wget'])).toMatchObject({ reason: 'multi_call', program: 'wget' });
    expect(await outcome(runner, ['/usr/bin/hidden'])).toMatchObject({ reason: 'multi_call' });
    await using sandbox = await runner.create({ root: 1 });
    const attempt = runner.client.setPrograms(sandbox.number, { programs: ['cat'] });
    await expect(attempt).rejects.toMatchObject({ details: { reason: 'multi_call', program: 'sh' } });
    expect(await exitOf(sandbox, ['cat', '/dev/null'])).toBe(0);
  });

  it('are found anew where the owner of the root has replaced a file', async () => {
    const made = root('sh', 'cat', 'ls');
    await using runner = await startRunner({ roots: [made.path], idleSeconds: 1 });
    const programs = { programs: ['cat'] };
    await using before = await runner.create({ programs });
    expect(await exitOf(before, ['cat', '/dev/null'])).toBe(0);
    cpSync(join(made.path, 'usr/bin/cat'), join(made.path, 'new'));
    renameSync(join(made.path, 'new'), join(made.path, 'usr/bin/cat'));
    // Nothing that was not found to be on the list is code, in the sandbox of before too.
    expect(await exitOf(before, ['cat', '/dev/null'])).toBe('not_executable');
    await using after = await runner.create({ programs });
    expect(await exitOf(after, ['cat', '/dev/null'])).toBe(0);
    expect(await exitOf(after, ['ls'])).toBe('not_executable');
    await runner.client.setPrograms(before.number, programs);
    expect(await exitOf(before, ['cat', '/dev/null'])).toBe(0);
  });
});

/** Its methods may be called alone. */
function bound(made: Root): { readonly path: string; readonly write: Root['write'] } {
  return { path: made.path, write: (path, text) => made.write(path, text) };
}
