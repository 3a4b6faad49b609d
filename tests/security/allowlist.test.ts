/** A list of programs that the kernel enforces: what is not on it can't be made into code, and what is on it works. */
import { execFileSync } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync, realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { lane, pythonJson, run, sh, slowness, startRunner, type TestRunner, type TestSandbox } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ATTACKS, attack, PROGRAMS, ran, refusal, SOURCE, type Ways } from './support/code-attacks.ts';

const MEMFD_NOEXEC = '/proc/sys/vm/memfd_noexec';
const settingBefore = machineSetting();

function machineSetting(): string | null {
  return existsSync(MEMFD_NOEXEC) ? readFileSync(MEMFD_NOEXEC, 'utf8') : null;
}

/** Shared objects below the module directories of the system's Python. */
function modulesOf(python: string): string[] {
  const directories = ['/usr/lib/python3', `/usr/lib/${basename(python)}`].filter((path) => existsSync(path));
  const found = execFileSync('find', [...directories, '-name', '*.so', '-o', '-name', '*.so.*'], { encoding: 'utf8' });
  return found
    .trim()
    .split('\n')
    .map((path) => realpathSync(path));
}

/** What the loader of the host, whose `/usr` the sandbox has, says that files are linked with. */
function linkedWith(files: readonly string[]): string[] {
  const text = execFileSync('/bin/sh', ['-c', 'for file; do ldd "$file" 2>/dev/null; done; true', 'sh', ...files], {
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  });
  const paths = [...text.matchAll(/(?:=> |^\s+)(\/\S+) \(0x/gm)].map(([, path]) => path ?? '');
  return paths.filter((path) => existsSync(path)).map((path) => realpathSync(path));
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function whereIs(name: string): string {
  const found = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
    // The host's own software is not in the root.
    .filter((directory) => !directory.startsWith('/usr/local'))
    .map((directory) => `${directory}/${name}`)
    .find((path) => existsSync(path));
  if (found === undefined) throw new Error(`${name} is not installed`);
  return found;
}

describe(`a list of programs, ${lane}`, () => {
  let runner: TestRunner;
  let sandbox: TestSandbox;

  beforeAll(async () => {
    runner = await startRunner();
    sandbox = await runner.create({ programs: { programs: PROGRAMS } });
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
  });

  it('is in force, by what was measured', async () => {
    const { programs, layers, landlock } = sandbox.effective;
    expect(programs.enforced).toBe('kernel');
    expect(programs.count).toBe(PROGRAMS.length + 1);
    expect(layers.programs).toBe(true);
    expect(programs.via).toEqual(expect.arrayContaining(['noexec_mounts', 'memfd_filter']));
    expect(programs.via.includes('landlock')).toBe(landlock > 0);
    // Only root owns the machine's settings.
    expect(programs.via.includes('memfd_noexec')).toBe(lane === 'root' && isWritable(MEMFD_NOEXEC));
    // The machine's own value is untouched.
    expect(machineSetting()).toBe(settingBefore);
    expect((await run(sandbox, ['ls', '/'])).record.effective).toEqual(sandbox.effective);
  });

  it.each(ATTACKS)('%s: nothing unlisted becomes code', async (name) => {
    const ways = await attack(sandbox, name);
    expect(Object.keys(ways).length).toBeGreaterThan(1);
    expect(ran(ways), JSON.stringify(ways, null, 1)).toEqual([]);
  });

  it('leaves exactly the list and what it is linked with as code', async () => {
    // A slow machine looks where most of it is.
    const tops = slowness > 1 ? ['/usr/bin', '/usr/sbin', '/usr/lib/python3', '/etc'] : ['/'];
    const { code, executable } = await pythonJson<{ code: string[]; executable: string[] }>(sandbox, SOURCE, {
      args: ['everything', ...tops],
      timeout_ms: 300_000,
    });
    const isLooked = (path: string): boolean => tops.some((top) => top === '/' || path.startsWith(`${top}/`));
    const listed = ['sh', ...PROGRAMS].map((name) => realpathSync(whereIs(name)));
    const modules = modulesOf(realpathSync(whereIs('python3')));
    const unsaid = code.filter((path) => /\/lib(gcc_s|nss_files)[-.]/.test(path));
    const expected = new Set([...listed, ...modules, ...unsaid, ...linkedWith([...listed, ...modules])]);
    expect(code.filter((path) => !expected.has(path))).toEqual([]);
    expect([...expected].filter((path) => isLooked(path) && !code.includes(path))).toEqual([]);
    expect(modules.length).toBeGreaterThan(10);
    expect(executable.filter((path) => !expected.has(path))).toEqual([]);
  });

  it('lets no library be executed, though it is mapped', async () => {
    if (sandbox.effective.landlock === 0) return;
    const ways = await pythonJson<Ways>(
      sandbox,
      `import json, os, subprocess
found = {}
for path in {line.split()[-1] for line in open('/proc/self/maps') if '.so' in line and '/ld-' not in line}:
    try: found[path] = str(subprocess.run([path], capture_output=True).returncode)
    except OSError as error: found[path] = 'errno %d' % error.errno
print(json.dumps(found))`,
    );
    expect(Object.keys(ways).length).toBeGreaterThan(1);
    expect(new Set(Object.values(ways))).toEqual(new Set(['errno 13']));
  });

  it('lets a listed interpreter do its own work', async () => {
    const work = `
import ssl, sqlite3, ctypes, hashlib, json, zlib, lzma, bz2, decimal, multiprocessing, threading, subprocess, socket, random, math
import os, uuid, tempfile
assert hashlib.sha256(b'x').hexdigest().startswith('2d71')
assert sqlite3.connect('/workspace/x.db').execute('select 1+1').fetchone() == (2,)
ssl.create_default_context()
assert ctypes.CDLL(None).getpid() == os.getpid()
for root in ['/workspace', '/tmp', '/mnt/user-data/outputs']:
    path = root + '/file'
    open(path, 'w').write('text'); assert open(path).read() == 'text'; os.unlink(path)
assert open('/usr/bin/id', 'rb').read(4) == b'\\x7fELF'
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda value: value + 1)
assert callback(41) == 42
thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
assert multiprocessing.get_context('fork').Pool(2).map(abs, [-1, 2]) == [1, 2]
assert subprocess.run(['ls', '/'], capture_output=True).stdout
os.unlink('/workspace/x.db')
print('works')`;
    const { stdout, stderr } = await run(sandbox, ['python3', '-c', work]);
    expect(stdout, stderr).toBe('works\n');
  });

  it('lets listed programs start each other and sh read scripts of them', async () => {
    const script =
      'printf "ls / | cat\\n" > /workspace/s; sh /workspace/s; find /workspace -name s -exec cat {} +; rm s';
    const { stdout, stderr, record } = await sh(sandbox, script);
    expect(stdout).toContain('usr\n');
    expect(stdout).toContain('ls / | cat\n');
    expect(stderr).toMatch(/rm: (Permission denied|not found)/);
    expect(record.exit_code).toBe(126);
  });

  it('refuses an unlisted program of a request itself', async () => {
    expect((await refusal(run(sandbox, ['/usr/bin/id']))).code).toBe('not_executable');
    expect((await refusal(run(sandbox, ['id']))).code).toBe('not_executable');
    expect((await refusal(run(sandbox, ['no-such-program']))).code).toBe('command_not_found');
  });
});
