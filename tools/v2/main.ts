/**
 * Runs the lanes of a machine with control groups of version 2, in a virtual machine without KVM, and leaves their results
 * in the directory given as first argument; test files may follow, default all of the plan. Exit status 1 where there are none; failed tests are the summary's to tell.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, homedir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { makeImages } from './image.ts';
import { runMachine } from './machine.ts';
import { laneFiles, USER_FILES } from './plan.ts';
import { takeResults } from './results.ts';

const ROOT = join(import.meta.dirname, '..', '..');
/** How many times slower an emulated processor is, in the worst of what the tests do. */
const SLOWNESS = 5;
const LANE_SECONDS = 1200;
/** Boot, both lanes, results. */
const DEADLINE_SECONDS = 2 * LANE_SECONDS + 120;

const [results, ...only] = process.argv.slice(2);
if (results === undefined) throw new TypeError('usage: main.ts RESULTS [FILE...]');

function cacheDirectory(): string {
  if (process.getuid?.() === 0) return '/var/cache/boxkite/v2';
  return join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'boxkite', 'v2');
}

const message = z.object({ executable: z.string().nullish(), profile: z.object({ test: z.boolean() }).optional() });

/** The tests of `runner/host` in Rust, built for this machine: control groups are theirs more than anybody's. */
function hostTests(): string[] {
  const target = `${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-unknown-linux-gnu`;
  const args = [
    'test',
    '--locked',
    '--package=boxkite-host',
    '--no-run',
    '--message-format=json',
    `--target=${target}`,
  ];
  const env = {
    ...process.env,
    CARGO_TARGET_DIR: process.env['CARGO_TARGET_DIR'] ?? join(ROOT, 'runner', 'target'),
    RUSTFLAGS: '-C target-feature=+crt-static',
  };
  const text = execFileSync('cargo', args, {
    cwd: join(ROOT, 'runner'),
    env,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return text.split('\n').flatMap((line) => {
    const found = line.startsWith('{') ? message.parse(JSON.parse(line)) : undefined;
    return found?.profile?.test === true && typeof found.executable === 'string' ? [found.executable] : [];
  });
}

/** Rolldown is slow on an emulated processor. */
function makeBundle(directory: string): string {
  execFileSync(process.execPath, [join(ROOT, 'tools', 'bundle', 'main.ts'), directory], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return directory;
}

const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => stop.abort());

/** A new directory, after those of this user's killed runs have gone. Not in /tmp, which may be small or in memory. */
function workDirectory(): string {
  for (const name of readdirSync('/var/tmp')) {
    const owner = /^boxkite-v2-(\d+)-/.exec(name)?.[1];
    if (owner === undefined || existsSync(`/proc/${owner}`)) continue;
    const path = join('/var/tmp', name);
    if (lstatSync(path, { throwIfNoEntry: false })?.uid === process.geteuid?.())
      rmSync(path, { recursive: true, force: true });
  }
  return mkdtempSync(`/var/tmp/boxkite-v2-${process.pid}-`);
}

const work = workDirectory();
try {
  const started = performance.now();
  mkdirSync(results, { recursive: true });
  const files = only.length > 0 ? only : laneFiles(ROOT);
  const forUser = only.length > 0 ? only.filter((file) => USER_FILES.includes(file)) : USER_FILES;
  const all = { 'v2-root': files, 'v2-user': forUser };
  const lanes = Object.fromEntries(Object.entries(all).filter(([, chosen]) => chosen.length > 0));
  const images = makeImages(work, cacheDirectory(), {
    lanes,
    programs: hostTests(),
    bundle: makeBundle(join(work, 'bundle')),
    slowness: SLOWNESS,
    laneSeconds: LANE_SECONDS,
    ci: process.env['CI'],
  });
  console.log(`v2: ${images.kernel.release}, images took ${Math.round((performance.now() - started) / 1000)} s`);
  const log = join(results, 'console.log');
  const machine = {
    kernel: images.kernel.image,
    initrd: images.initrd,
    disks: [images.root, images.data, images.results],
    console: log,
    processors: Math.min(2, availableParallelism()),
    memoryMegabytes: 4096,
  };
  const ended = await runMachine(machine, DEADLINE_SECONDS, (text) => process.stdout.write(text), stop.signal);
  const missing = takeResults(images.results, results, Object.keys(lanes), ended.late);
  if (missing.length > 0) {
    const how = ended.late ? `was ended after ${DEADLINE_SECONDS} s` : `ended with status ${ended.status}`;
    console.error(`v2: the virtual machine ${how} without results of ${missing.join(', ')}; its console said:`);
    console.error(`${readFileSync(log, 'utf8').split('\n').slice(-40).join('\n')}\n${ended.complaints}`);
    process.exitCode = 1;
  }
  console.log(`v2: took ${Math.round((performance.now() - started) / 1000)} s`);
} finally {
  rmSync(work, { recursive: true, force: true });
}
