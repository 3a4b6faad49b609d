/** Starts a script in a Node of its own that the kernel keeps from everything but its program and three descriptors. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, realpathSync } from 'node:fs';
import { basename, dirname } from 'node:path';

/** A script to be confined. */
export interface ConfinedScript {
  /** Absolute path. */
  readonly script: string;
  /** Absolute paths of files and directories that it reads, itself among them. */
  readonly readable: readonly string[];
}

/** Exit status where something of the confinement could not be put in force: then the script was not started. */
export const NOT_CONFINED = 125;

const SCRIPT_HEAP_MB = 128;
/** What Node and its loader read before the script, beside their libraries. */
const OF_EVERY_NODE = ['/dev/null', '/etc/ld.so.cache'];

/** With Node's permission model on top. `runner`: path of `boxkite-runner`. */
export function startConfined(runner: string, { script, readable }: ConfinedScript): ChildProcess {
  const options = [
    '--permission',
    ...readable.map((path) => `--allow-fs-read=${path}`),
    `--max-old-space-size=${SCRIPT_HEAP_MB}`,
    '--disallow-code-generation-from-strings',
    '--no-warnings',
  ];
  return startConfinedNode(runner, [...options, script], readable);
}

/** The native program confines itself, as `docs/reference/runner-protocol.md` has it, and becomes a Node with these arguments. */
export function startConfinedNode(runner: string, words: readonly string[], readable: readonly string[]): ChildProcess {
  const node = realpathSync(process.execPath);
  const libraries = librariesOf(node);
  const read = [...readable, ...OF_EVERY_NODE, ...new Set(libraries.map((path) => dirname(path)))];
  const args = [
    ...libraries.flatMap((path) => ['--execute', path]),
    ...read.flatMap((path) => ['--read', path]),
    '--',
    node,
    // That of the machine is not to be read, which would end Node.
    '--openssl-config=/dev/null',
    ...words,
  ];
  return spawn(runner, ['confined', ...args], { cwd: '/', env: {}, stdio: ['pipe', 'pipe', 'ignore'] });
}

/** The loader and the shared libraries of this process, which are those of any process of the same Node. */
function librariesOf(node: string): readonly string[] {
  const paths = new Set<string>();
  for (const line of readFileSync('/proc/self/maps', 'utf8').split('\n')) {
    const path = /^\S+ ..x. \S+ \S+ \d+ +(\/.*)$/.exec(line)?.[1];
    // An upgrade of the machine puts another in the place of one that is in use.
    if (path !== undefined) paths.add(path.replace(/ \(deleted\)$/, ''));
  }
  return [...paths].filter((path) => path !== node && /\.so(\.|$)/.test(basename(path)));
}
