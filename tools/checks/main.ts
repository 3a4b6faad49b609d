/** `make check`: every gate that needs no sandbox. Prints the seconds of each; the output only of those that fail. */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runStep, type Step, type StepResult } from './run-step.ts';

const root = join(import.meta.dirname, '..', '..');
const native = join(root, 'runner');
const results = join(root, 'build', 'results', 'check');
// The flags and the target of tools/native/build, so that both share what they compile.
const target = `${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-unknown-linux-gnu`;
const cargoEnv = {
  RUSTFLAGS: '-C target-feature=+crt-static',
  CARGO_TARGET_DIR: process.env['CARGO_TARGET_DIR'] ?? join(native, 'target'),
};

const node: readonly Step[] = [
  { name: 'types', cwd: root, command: ['tsc', '--noEmit', '-p', '.'] },
  { name: 'biome', cwd: root, command: ['biome', 'check', '--error-on-warnings', '--max-diagnostics=50', '.'] },
  { name: 'oxlint', cwd: root, command: ['oxlint', '--type-aware', '--deny-warnings'] },
  {
    name: 'architecture',
    cwd: root,
    command: [
      'vitest',
      'run',
      '--project=architecture',
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${join(results, 'check.vitest.json')}`,
    ],
  },
];

const clippy = ['clippy', '--locked', '--target', target, '--all-targets'];
const weakened = ['-p', 'boxkite-envelope', '-p', 'boxkite-program', '--features', 'boxkite-program/weakened'];
const rust: readonly Step[] = [
  { name: 'licences', cwd: root, command: ['node', join('tools', 'checks', 'licences.ts')] },
  { name: 'rustfmt', cwd: native, command: ['cargo', 'fmt', '--all', '--check'] },
  {
    name: 'clippy',
    cwd: native,
    env: cargoEnv,
    command: ['cargo', ...clippy, '--workspace', '--', '-D', 'warnings'],
  },
  {
    name: 'clippy, weakened twin',
    cwd: native,
    env: cargoEnv,
    command: ['cargo', ...clippy, ...weakened, '--', '-D', 'warnings'],
  },
];

async function inOrder(steps: readonly Step[]): Promise<StepResult[]> {
  const done: StepResult[] = [];
  for (const step of steps) {
    const result = await runStep(step);
    const verdict = result.ok ? 'ok' : 'FAILED';
    console.log(`check: ${result.name.padEnd(24)}${result.seconds.toFixed(1).padStart(6)} s  ${verdict}`);
    if (!result.ok) console.log(result.output);
    done.push(result);
  }
  return done;
}

await rm(results, { recursive: true, force: true });
await mkdir(results, { recursive: true });
// The two groups share nothing, and cargo's first compile is the longest part by far.
const groups = await Promise.all([inOrder(node), inOrder(rust)]);
const done = groups.flat();
const failed = done.filter((result) => !result.ok);
// For the sum over all lanes: the architecture tests one by one, every other step as one.
const architecture = done.find((result) => result.name === 'architecture');
const lane = { lane: 'check', root, vitest: architecture?.ok === true ? 0 : 1 };
const gates = done.filter((result) => result !== architecture).map(({ name, ok }) => ({ name, ok }));
await writeFile(join(results, 'check.lane.json'), JSON.stringify(lane));
await writeFile(join(results, 'check.gates.json'), JSON.stringify(gates));
if (failed.length > 0) {
  console.log(`check: ${failed.length} failed: ${failed.map((result) => result.name).join(', ')}`);
  process.exitCode = 1;
}
