/** Runs rows of the bench as a user that is not root, on a copy that such a user can read. */
import { spawn } from 'node:child_process';
import { chown, cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { nativeProgram } from '@boxkite/testing';
import { MissingPrerequisite } from './row.ts';

const REPOSITORY = fileURLToPath(new URL('../../', import.meta.url));

/** An id without an account, without an id range, and so without anything of anybody else. */
const FRESH_USER = 61_337;

/** What a bench row needs of the checkout, apart from the packages of npm. */
const PARTS = ['package.json', 'packages', 'tests/performance', 'tools/demo'] as const;

/** Packages that the bench itself imports; what these import comes with them. */
const NEEDED = ['@boxkite/policy', '@boxkite/protocol', '@boxkite/testing', 'boxkite', 'zod'] as const;

/** Runs the bench's rows in a process of a fresh user. Resolves to its JSON, in text. */
export async function benchAsOrdinaryUser(rowArguments: readonly string[]): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'boxkite-bench-user-'));
  try {
    const checkout = join(home, 'checkout');
    await copyCheckout(checkout);
    await mkdir(join(home, 'tmp'));
    for (const path of [home, join(home, 'tmp')]) await chown(path, FRESH_USER, FRESH_USER);
    const json = join(home, 'tmp', 'result.json');
    const program = ['node', 'tests/performance/main.ts', '--json', json, ...rowArguments];
    await runAsUser([join(home, 'node'), ...program.slice(1)], checkout, home);
    return await readFile(json, 'utf8');
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

async function copyCheckout(checkout: string): Promise<void> {
  for (const part of PARTS)
    await cp(join(REPOSITORY, part), join(checkout, part), { recursive: true, verbatimSymlinks: true });
  for (const name of ['boxkite-runner', 'boxkite-agent'] as const)
    await cp(nativeProgram(name), join(checkout, 'build', 'bin', name));
  for (const name of await runtimePackages())
    await cp(join(REPOSITORY, 'node_modules', name), join(checkout, 'node_modules', name), {
      recursive: true,
      verbatimSymlinks: true,
    });
  await cp(process.execPath, join(checkout, '..', 'node'));
}

/** The workspace's packages and all that they need at run time, as names below `node_modules`. */
async function runtimePackages(): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  const queue: string[] = [...NEEDED];
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    if (found.has(name)) continue;
    found.add(name);
    queue.push(...(await dependencies(join(REPOSITORY, 'node_modules', name, 'package.json'))));
  }
  return found;
}

async function dependencies(manifest: string): Promise<readonly string[]> {
  const value: unknown = JSON.parse(await readFile(manifest, 'utf8'));
  const named: unknown = new Map<string, unknown>(Object.entries(value ?? {})).get('dependencies');
  return Object.keys(named ?? {});
}

async function runAsUser(argv: readonly string[], cwd: string, home: string): Promise<void> {
  const identity = [`--reuid=${FRESH_USER}`, `--regid=${FRESH_USER}`, '--clear-groups'];
  const environment = {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: home,
    TMPDIR: join(home, 'tmp'),
    BOXKITE_LANE: 'user-one-id',
  };
  await new Promise<void>((resolve, reject) => {
    const child = spawn('setpriv', [...identity, ...argv], {
      cwd,
      env: environment,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    child.once('error', (error) => {
      const missing = 'code' in error && error.code === 'ENOENT';
      reject(missing ? new MissingPrerequisite('setpriv is missing', 'apt-get install util-linux') : error);
    });
    // 1 is a broken promise or a failed row: both are in the JSON, whose absence fails its reader.
    child.once('close', () => resolve());
  });
}
