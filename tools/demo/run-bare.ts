/** Runs the same programs without any isolation: the baseline. */
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hasPassed, type Program } from './program.ts';
import { PROGRAM_TIMEOUT_MS, PYTHON } from './run-sandboxed.ts';

/** A program that lies ready as a file. */
export interface BareProgram {
  readonly program: Program;
  readonly path: string;
}

/** Environment of the bare runs: as small as a sandbox's, so that Python does the same work at its start. */
const ENVIRONMENT = { PATH: '/usr/local/bin:/usr/bin:/bin', LANG: 'C.UTF-8' } as const;

/** Writes the programs into an existing directory; not part of what is timed, which favours the baseline. */
export async function prepareBare(programs: readonly Program[], directory: string): Promise<readonly BareProgram[]> {
  return await Promise.all(
    programs.map(async (program, index) => {
      const path = join(directory, `program-${index}.py`);
      await writeFile(path, program.source);
      return { program, path };
    }),
  );
}

/** Runs a program by Python. Resolves to whether it passed. */
export async function runBare({ program, path }: BareProgram): Promise<boolean> {
  return await new Promise((resolve, reject) => {
    const child = spawn(PYTHON, [...program.pythonOptions, path], {
      cwd: '/',
      env: ENVIRONMENT,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: PROGRAM_TIMEOUT_MS,
      killSignal: 'SIGKILL',
    });
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    child.stderr.resume();
    child.once('error', reject);
    child.once('close', (code) => resolve(hasPassed(program, code, stdout)));
  });
}
