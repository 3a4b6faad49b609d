/**
 * A runner that belongs to this process alone. Its owner's socket is held by nobody else, so that the end of this
 * process, in whatever way, is the end of the runner and of everything that it started.
 */

import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { rmdir } from 'node:fs';
import { connect, Socket } from 'node:net';
import { join } from 'node:path';
import { BoxkiteError } from '@boxkite/protocol';
import type { RunnerAccess } from '@boxkite/runner-client';
import { COMMAND_ENVIRONMENT, RunnerClient } from '@boxkite/runner-client';
import type { RunnerBinaries } from './runner-binaries.ts';

/** What a private runner is started with. */
export interface PrivateRunnerOptions {
  readonly binaries: RunnerBinaries;
  /** An existing directory of mode 0700; the runner removes it at its end. */
  readonly directory: string;
  /** `host`, or the absolute path of a directory that holds a root file system. */
  readonly root: string;
  /** Envelopes to make ahead. */
  readonly blanks: number;
}

/** A runner that is asked to end and doesn't is killed after this time; what it started then ends with it. */
const END_DEADLINE_MS = 10_000;
const OWNER_DESCRIPTOR = 3;
/** The runner looks for `newuidmap` in it; nothing else of the caller's environment reaches the runner. */
const RUNNER_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const STDERR_KEPT = 4096;

/** One started runner and the connection to it. */
export class PrivateRunner implements RunnerAccess {
  readonly client: RunnerClient;
  /** Resolves, never rejects, when the runner's process is gone. */
  readonly exited: Promise<void>;
  readonly #child: ChildProcess;
  readonly #socket: Socket;
  #holds = 0;
  #answered = false;
  #closing = false;
  /** Its connection is gone, which its process outlives by a moment. */
  #lost = false;
  #complaint = '';
  #spawnError: Error | null = null;

  private constructor(child: ChildProcess, socket: Socket, directory: string) {
    this.#child = child;
    this.#socket = socket;
    this.client = new RunnerClient(socket, {
      connect: () => connectTo(join(directory, 'runner.sock')),
      environment: COMMAND_ENVIRONMENT,
    });
    void this.client.lost.then(() => {
      this.#lost = true;
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.exited = promise;
    // `close` comes after `exit` and after the last byte of the failure line; after a failed spawn it may not come at all.
    child.once('close', () => removeEmpty(directory, resolve));
    child.once('error', (error) => {
      this.#spawnError = error;
      removeEmpty(directory, resolve);
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#complaint = (this.#complaint + text).slice(0, STDERR_KEPT);
    });
    this.#setAlive(false);
  }

  /**
   * Starts the process and returns at once: calls may be sent before it serves. Its failure shows in the first of them.
   * Errors: `capacity`.
   */
  static start(options: PrivateRunnerOptions): PrivateRunner {
    const args = [
      '--dir',
      options.directory,
      '--agent',
      options.binaries.agent,
      '--root',
      options.root,
      '--blanks',
      String(options.blanks),
    ];
    // A session of its own: an interrupt from the caller's terminal is for the command, not for the runner.
    const child = spawn(options.binaries.runner, args, {
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
      detached: true,
      cwd: '/',
      env: { PATH: RUNNER_PATH },
    });
    // Without a descriptor left Node makes no streams, whatever its types say, and tells why by an event.
    const socket = child.stdio?.[OWNER_DESCRIPTOR];
    if (!(socket instanceof Socket)) {
      child.once('error', () => removeEmpty(options.directory, () => undefined));
      throw new BoxkiteError('capacity', 'the runner got no connection to this process, which has no more open files', {
        details: { limit: 'open files' },
      });
    }
    return new PrivateRunner(child, socket, options.directory);
  }

  get lost(): Promise<void> {
    return this.client.lost;
  }

  /** Whether calls can't succeed any more. */
  get ended(): boolean {
    const { exitCode, signalCode } = this.#child;
    return this.#closing || this.#lost || this.#spawnError !== null || exitCode !== null || signalCode !== null;
  }

  /**
   * Runs one call and keeps the process from ending meanwhile. A runner that never served fails it with
   * `runner_failed` and the reason that it gave; one that is gone with `runner_lost`.
   */
  async call<T>(run: (client: RunnerClient) => Promise<T>): Promise<T> {
    const release = this.hold();
    try {
      const result = await run(this.client);
      this.#answered = true;
      return result;
    } catch (error) {
      throw await this.#explain(error);
    } finally {
      release();
    }
  }

  /** Keeps the process from ending until the returned function is called. */
  hold(): () => void {
    let held = true;
    this.#holds += 1;
    if (this.#holds === 1) this.#setAlive(true);
    return () => {
      if (!held) return;
      held = false;
      this.#holds -= 1;
      if (this.#holds === 0) this.#setAlive(false);
    };
  }

  /** Ends the runner and resolves when it is gone; idempotent. */
  async close(): Promise<void> {
    this.#closing = true;
    const release = this.hold();
    const deadline = setTimeout(() => this.#child.kill('SIGKILL'), END_DEADLINE_MS);
    try {
      await this.client.close();
      await this.exited;
    } finally {
      clearTimeout(deadline);
      release();
    }
  }

  #setAlive(alive: boolean): void {
    const { stderr } = this.#child;
    const method = alive ? 'ref' : 'unref';
    this.#child[method]();
    this.#socket[method]();
    if (stderr instanceof Socket) stderr[method]();
  }

  async #explain(error: unknown): Promise<unknown> {
    if (!(error instanceof BoxkiteError)) return error;
    if (error.code !== 'runner_lost') {
      this.#answered = true;
      return error;
    }
    if (this.#answered || this.#closing) return error;
    await this.exited;
    return startFailure(this.#spawnError, this.#complaint, this.#child);
  }
}

/** A runner that gave up before it took its directory has left it empty; one that was killed leaves more, for the next sweep. */
function removeEmpty(directory: string, done: () => void): void {
  rmdir(directory, () => done());
}

function connectTo(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

/** The error of a runner that ended before it served: it says why in one line, `boxkite-runner: STEP: detail (errno N)`. */
function startFailure(spawnError: Error | null, complaint: string, child: ChildProcess): BoxkiteError {
  if (spawnError !== null) {
    return new BoxkiteError('runner_failed', `the runner can't be started: ${spawnError.message}`, {
      hint: 'Build it again with `make build`, or install boxkite again.',
      cause: spawnError,
    });
  }
  const line = complaint.split('\n').find((text) => text.startsWith('boxkite-runner: '));
  const [, step, detail] = /^boxkite-runner: ([^:]+): (.*)$/.exec(line ?? '') ?? [];
  if (step === undefined || detail === undefined) {
    return new BoxkiteError(
      'runner_failed',
      `the runner ended at once (${child.signalCode ?? `exit status ${child.exitCode}`})`,
    );
  }
  return new BoxkiteError('runner_failed', `the runner can't start: ${step}: ${detail}`, { details: { step } });
}
