/** Finds the two native programs: beside a bundle, or where a checkout builds them. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BoxkiteError } from '@boxkite/protocol';

/** Absolute paths of the native programs. */
export interface RunnerBinaries {
  readonly runner: string;
  readonly agent: string;
}

const TARGETS: Readonly<Record<string, string>> = {
  x64: 'x86_64-unknown-linux-gnu',
  arm64: 'aarch64-unknown-linux-gnu',
};

/** Directories that may hold both programs, best first: of a bundle (flat, or with chunks in a folder), then of a source tree. */
function candidates(here: string): readonly string[] {
  const target = TARGETS[process.arch];
  const bundled = [join(here, 'bin'), join(here, '..', 'bin')];
  if (target === undefined) return bundled;
  const built = join('runner', 'target', target, 'release');
  return [...bundled, join(here, '..', '..', '..', built), join(here, '..', built)];
}

/**
 * The programs given in `override`, each missing one found beside this code.
 * Errors: `runner_failed` where one isn't there.
 */
export function findBinaries(override: Partial<RunnerBinaries> = {}): RunnerBinaries {
  const directories = candidates(dirname(fileURLToPath(import.meta.url)));
  return {
    runner: override.runner ?? locate(directories, 'boxkite-runner'),
    agent: override.agent ?? locate(directories, 'boxkite-agent'),
  };
}

function locate(directories: readonly string[], name: string): string {
  for (const directory of directories) {
    const path = join(directory, name);
    if (existsSync(path)) return path;
  }
  throw new BoxkiteError('runner_failed', `the program ${name} is not there`, {
    hint: 'Build it with `make build`, or install boxkite again.',
  });
}
