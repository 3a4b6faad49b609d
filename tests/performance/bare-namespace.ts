/** A pid namespace and nothing more, with a limit of processes: what the deadline rows are held against. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';

/** An id that no account has: a limit of processes binds only a user that is not root. */
const NOBODY = '64999';

/** What forks without end must not outlive a bench that is killed. */
const UNSHARE = ['unshare', '--user', '--map-root-user', '--pid', '--fork', '--kill-child', '--'] as const;

/** One running tree below a shell that is PID 1 of its namespace. */
export class BareNamespace implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly #init: number;

  private constructor(child: ChildProcess, exited: Promise<unknown>, init: number) {
    this.#child = child;
    this.#exited = exited;
    this.#init = init;
    process.once('exit', this.#kill);
  }

  readonly #kill = (): void => {
    try {
      process.kill(this.#init, 'SIGKILL');
    } catch (error) {
      // It has ended already, which is what is wanted.
      if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
    }
  };

  /** Starts a command below PID 1, at most `cap` processes in all. */
  static async start(argv: readonly string[], cap: number): Promise<BareNamespace> {
    const asUser =
      process.getuid?.() === 0 ? ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'] : [];
    // `; :` keeps the shell from becoming the command: PID 1 is another process than the command, as in a sandbox.
    const command = [...asUser, ...UNSHARE, 'prlimit', `--nproc=${cap}`, '/bin/sh', '-c', '"$@"; :', 'sh', ...argv];
    const [file = '', ...args] = command;
    const child = spawn(file, args, {
      stdio: ['ignore', 'ignore', 'ignore'],
      cwd: '/',
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
    });
    const exited = once(child, 'exit');
    await once(child, 'spawn');
    if (child.pid === undefined) throw new TypeError('a spawned process has an id');
    return new BareNamespace(child, exited, await onlyChild(child.pid));
  }

  /** ms from the signal until `unshare`, which waits for its PID 1, has ended: the kernel lets PID 1 go last. */
  async end(): Promise<number> {
    const start = performance.now();
    this.#kill();
    await this.#exited;
    process.off('exit', this.#kill);
    return performance.now() - start;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#kill();
    await this.#exited;
    process.off('exit', this.#kill);
  }
}

/** The process that `unshare --fork` started, as soon as it is there. */
async function onlyChild(parent: number): Promise<number> {
  const deadline = performance.now() + 5000;
  while (performance.now() < deadline) {
    const children = (await readFile(`/proc/${parent}/task/${parent}/children`, 'utf8')).trim();
    if (children !== '') return Number(children.split(' ')[0]);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  throw new TypeError('unshare started nothing within 5 s');
}
