/** One sandbox of a private runner, as its user holds it. */
import { posix } from 'node:path';
import type { Effective, ExecEvent, ExecHandle, ExecRequest, FilesPort, SandboxPort } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { RunnerExecution, SandboxId } from '@boxkite/runner-client';
import { RunnerFiles, TERMINAL_TYPE } from '@boxkite/runner-client';
import type { Admit } from './private-gate.ts';
import type { PrivateRunner } from './private-runner.ts';

const WORKSPACE = '/workspace';

/** What a sandbox is made of. */
export interface LocalSandboxParts {
  readonly id: string;
  readonly sandbox: SandboxId;
  readonly effective: Effective;
  readonly runner: PrivateRunner;
  /** Asked before a command is started; `null`: any may be. */
  readonly admit: Admit | null;
  /** Destroys it by its substrate, which then forgets it. */
  readonly destroy: () => Promise<void>;
}

/** A `SandboxPort` over the runner's connection. */
export class LocalSandbox implements SandboxPort {
  readonly id: string;
  readonly effective: Effective;
  readonly execs = null;
  readonly #parts: LocalSandboxParts;
  readonly #files: RunnerFiles;
  #closed = false;

  constructor(parts: LocalSandboxParts) {
    this.id = parts.id;
    this.effective = parts.effective;
    this.#parts = parts;
    this.#files = new RunnerFiles(parts.runner, parts.sandbox);
  }

  get files(): FilesPort {
    return this.#files;
  }

  async exec(request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle> {
    if (this.#closed) throw new BoxkiteError('closing', 'the sandbox is destroyed');
    if (request.secret_env !== undefined) throw noRecords();
    const { runner, sandbox, admit } = this.#parts;
    admit?.(request);
    const full: ExecRequest = {
      ...request,
      cwd: posix.resolve(WORKSPACE, checkedDirectory(request.cwd)),
      env: request.tty === undefined ? request.env : { TERM: TERMINAL_TYPE, ...request.env },
    };
    const execution = await runner.call((client) => client.exec(sandbox, full, signal));
    return new HeldExec(execution, runner);
  }

  destroy(): Promise<void> {
    this.#closed = true;
    return this.#parts.destroy();
  }

  /** Ends the connection to the file agent; the runner ends the agent itself. */
  closeFiles(): void {
    this.#closed = true;
    this.#files.close();
  }
}

/** Redaction belongs to records, which a sandbox of this process does not have. */
function noRecords(): BoxkiteError {
  return new BoxkiteError('unsupported', 'secret_env needs a daemon, which keeps records and redacts them', {
    hint: 'Start the daemon by `boxkite serve`, or pass the value by `env`, where nothing hides it.',
    details: { field: 'secret_env' },
  });
}

function checkedDirectory(cwd: unknown): string {
  if (cwd === undefined) return WORKSPACE;
  if (typeof cwd === 'string') return cwd;
  throw new BoxkiteError('invalid_request', 'cwd is to be a string', { details: { field: 'cwd' } });
}

/** A running exec keeps its process alive until it has ended, since somebody waits for it or will. */
class HeldExec implements ExecHandle {
  readonly exec_id: string;
  readonly effective: Effective;
  readonly #execution: RunnerExecution;

  constructor(execution: RunnerExecution, runner: PrivateRunner) {
    this.exec_id = execution.exec_id;
    this.effective = execution.effective;
    this.#execution = execution;
    const release = runner.hold();
    // A lost runner ends the exec too; whoever iterates it gets that error.
    execution.whenEnded(release);
  }

  [Symbol.asyncIterator](): AsyncIterator<ExecEvent> {
    return this.#execution[Symbol.asyncIterator]();
  }

  write(data: Uint8Array): Promise<void> {
    return this.#execution.write(data);
  }

  closeStdin(): Promise<void> {
    return this.#execution.closeStdin();
  }

  signal(signal: string | number): Promise<void> {
    return this.#execution.signal(signal);
  }

  kill(): Promise<void> {
    return this.#execution.kill();
  }

  resize(columns: number, rows: number): Promise<void> {
    return this.#execution.resize(columns, rows);
  }
}
