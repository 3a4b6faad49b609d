import type { Buffer } from 'node:buffer';
import type { Socket } from 'node:net';
import { BoxkiteError, type ErrorCode } from '@boxkite/protocol';
import { decodeAttached, decodeListing, decodeOpened, decodeProbed, decodeProgramsSet } from './answers.ts';
import { Connection } from './connection.ts';
import { startExec } from './exec-call.ts';
import { Environment, execFields } from './exec-fields.ts';
import { type CommitMode, RunnerExecution } from './execution.ts';
import { abortedBy, runnerLost } from './faults.ts';
import { FileAgentClient } from './files/index.ts';
import { FrameType } from './frames.ts';
import { handOver } from './handover.ts';
import { checkOpen, checkPrograms, checkWorkspaceId } from './open-request.ts';
import {
  type ExecFields,
  encodeAttach,
  encodeClose,
  encodeFile,
  encodeList,
  encodeOpen,
  encodeProbe,
  encodePrograms,
} from './operations.ts';
import { type HeldInput, StdinWriter } from './stdin.ts';
import { type StdinHolder, StdinMemory } from './stdin-memory.ts';
import type {
  CloseOptions,
  FileView,
  ListingOptions,
  OpenedSandbox,
  OpenRequest,
  ProbeReport,
  ProgramPolicy,
  ProgramsSet,
  RunnerClientOptions,
  RunnerExecRequest,
  RunnerListing,
  SandboxId,
  WorkspaceId,
} from './types.ts';

/** Request number of a connection's only frame. */
const ONLY_REQUEST = 1;
const MAX_ID = 0xffff_ffff_ffff_ffffn;

/** Speaks to one runner over one multiplexed connection. Every failure is a `BoxkiteError`. */
export class RunnerClient {
  readonly #connection: Connection;
  readonly #connect: () => Promise<Socket>;
  readonly #environment: Environment;
  readonly #stdinMemory: StdinMemory;

  /** `socket` is connected: the owner's descriptor, or one more connection to `runner.sock`. The client owns it from here. */
  constructor(socket: Socket, options: RunnerClientOptions) {
    this.#connect = options.connect;
    this.#environment = new Environment(options.environment);
    this.#stdinMemory = new StdinMemory(options.stdinBytes ?? Number.POSITIVE_INFINITY);
    this.#connection = new Connection(socket, options.memory);
  }

  /** Resolves, never rejects, when the connection is gone: after it every call fails with `runner_lost`. */
  get lost(): Promise<void> {
    return this.#connection.lost;
  }

  /**
   * Aborting rejects `aborted` when no sandbox is left of it, nor a new workspace; one that was reopened is kept. Errors:
   * `isolation_unavailable`, `capacity`, `invalid_request`; of a `disk` workspace `workspace_not_kept` where there is none
   * to reopen, `conflict` where it exists already or is in use.
   */
  async openSandbox(request: OpenRequest, signal?: AbortSignal): Promise<OpenedSandbox> {
    if (isAborted(signal)) throw abortedBy(signal);
    checkOpen(request);
    const opened = await this.#connection.request(
      (number) => encodeOpen(number, request),
      FrameType.opened,
      decodeOpened,
    );
    const { programs, workspace } = request;
    try {
      const set = programs === undefined ? undefined : await this.setPrograms(opened.sandbox, programs);
      if (isAborted(signal)) throw abortedBy(signal);
      return { ...opened, ...set };
    } catch (error) {
      await this.closeSandbox(opened.sandbox, { keep: workspace?.kind === 'disk' && workspace.reopen });
      throw error;
    }
  }

  /**
   * Has the kernel let commands execute the listed programs alone, or with `null` everything. Resolves when no envelope of
   * before is left and one of the new list has been tried; where it rejects as refused, what was in force stays. Errors:
   * `invalid_request` (`details.program`, `details.reason`) for a program that can't be enforced, `conflict` while an exec
   * or another change is under way, `isolation_unavailable`.
   */
  async setPrograms(sandbox: SandboxId, policy: ProgramPolicy | null): Promise<ProgramsSet> {
    if (policy !== null) checkPrograms(policy);
    return await this.#connection.request(
      (number) => encodePrograms(number, sandbox, policy),
      FrameType.programsSet,
      decodeProgramsSet,
    );
  }

  /**
   * Resolves when nothing of it is left but the workspace that is to be kept; an unknown one resolves too. Of several
   * calls one without `keep` is enough for the workspace to go. Errors: `invalid_request` where a tmpfs is to be kept, and
   * then the sandbox goes on.
   */
  async closeSandbox(sandbox: SandboxId, options: CloseOptions = {}): Promise<void> {
    const keep = options.keep === true;
    await this.#unless('not_found', (number) => encodeClose(number, sandbox, keep, null));
  }

  /** Removes a kept workspace; one that does not exist resolves too. Errors: `conflict` while a sandbox has it open. */
  async removeWorkspace(id: WorkspaceId): Promise<void> {
    checkWorkspaceId(id);
    await this.#unless('workspace_not_kept', (number) => encodeClose(number, 0n, false, id));
  }

  /**
   * Starts a command. Aborting before the start rejects `aborted` when nothing of it runs; after the start it kills the
   * exec. `limits.output_bytes` bounds what the handle gives out per stream, unless the caller commits; the rest is one
   * gap before the end. Errors: those of the runner, and `capacity` where too much standard input waits for commands.
   */
  exec(
    sandbox: SandboxId,
    request: RunnerExecRequest,
    signal?: AbortSignal,
    commits?: CommitMode,
  ): Promise<RunnerExecution> {
    if (isAborted(signal)) return Promise.reject(abortedBy(signal));
    let fields: ExecFields;
    let input: HeldInput | null = null;
    try {
      fields = execFields(sandbox, request, this.#environment);
      // Too long for the request itself.
      if (fields.stdin === 2 && request.stdin instanceof Uint8Array)
        input = { data: request.stdin, free: this.#stdinMemory.hold(sandbox, request.stdin.length) };
    } catch (error) {
      if (error instanceof BoxkiteError) return Promise.reject(error);
      throw error;
    }
    return startExec(this.#connection, fields, {
      request,
      outputBytes: commits === 'caller' ? undefined : request.limits?.output_bytes,
      commits,
      stdin: fields.stdin >= 2 ? (exec) => this.#stdin(exec, sandbox) : null,
      input,
      signal,
    });
  }

  /**
   * Becomes the consumer of an exec that another connection started, from what is not committed on; also of one that has
   * ended and whose record is still kept. Errors: `not_found`; `invalid_request` where this client consumes it already.
   */
  attach(execId: string, commits?: CommitMode): Promise<RunnerExecution> {
    const exec = execNumber(execId);
    if (exec === null)
      return Promise.reject(new BoxkiteError('not_found', 'there is no such exec', { details: { kind: 'exec' } }));
    if (this.#connection.consumes(exec)) {
      return Promise.reject(
        new BoxkiteError('invalid_request', 'this client already consumes the exec', { details: { field: 'exec_id' } }),
      );
    }
    return new Promise((resolve, reject) => {
      this.#connection.call((number) => encodeAttach(number, exec, 0), {
        expects: FrameType.attached,
        answer: (payload) => {
          const { effective, stdoutFrom, stderrFrom } = decodeAttached(payload);
          const stdin = this.#stdin(exec, `exec ${exec}`);
          const execution = new RunnerExecution(this.#connection, {
            exec,
            effective,
            stdoutFrom,
            stderrFrom,
            outputBytes: undefined,
            stdin,
            commits,
          });
          this.#connection.consume(exec, execution);
          resolve(execution);
        },
        fail: reject,
      });
    });
  }

  /** Sandboxes and workspaces of the runner, and execs whose record it still keeps. */
  list(options: ListingOptions = {}): Promise<RunnerListing> {
    const usage = options.usage === true;
    return this.#connection.request((number) => encodeList(number, usage), FrameType.listing, decodeListing);
  }

  /** What the machine can enforce, as tried by the runner at its start. */
  probe(): Promise<ProbeReport> {
    return this.#connection.request(encodeProbe, FrameType.probed, decodeProbed);
  }

  /** A connection of its own to the sandbox's file agent: after it the socket speaks the file agent's protocol. */
  connectFiles(sandbox: SandboxId, view: FileView): Promise<Socket> {
    return this.#handedOver(encodeFile(ONLY_REQUEST, sandbox, view === 'commands' ? 0 : 1));
  }

  /** A client of the sandbox's file agent on a connection of its own, which the caller keeps and disposes. */
  async files(sandbox: SandboxId, view: FileView): Promise<FileAgentClient> {
    return new FileAgentClient(await this.connectFiles(sandbox, view));
  }

  /** Ends the connection: on the owner's descriptor this ends the runner and everything that it started. */
  close(): Promise<void> {
    return this.#connection.close();
  }

  /** Waits for DONE; the error `gone` is as good. */
  async #unless(gone: ErrorCode, encode: (number: number) => Buffer): Promise<void> {
    try {
      await this.#connection.request(encode, FrameType.done, nothing);
    } catch (error) {
      if (!(error instanceof BoxkiteError) || error.code !== gone) throw error;
    }
  }

  #stdin(exec: bigint, holder: StdinHolder): StdinWriter {
    const open = (): Promise<Socket> => this.#handedOver(encodeAttach(ONLY_REQUEST, exec, 1));
    return new StdinWriter(open, (bytes) => this.#stdinMemory.hold(holder, bytes));
  }

  async #handedOver(frame: Buffer): Promise<Socket> {
    let socket: Socket;
    try {
      socket = await this.#connect();
    } catch (error) {
      throw error instanceof BoxkiteError ? error : runnerLost('no further connection could be made', error);
    }
    return handOver(socket, frame);
  }
}

function execNumber(execId: string): bigint | null {
  if (!/^\d{1,20}$/.test(execId)) return null;
  const number = BigInt(execId);
  return number <= MAX_ID ? number : null;
}

function nothing(): void {
  // DONE has no content.
}

/** Asked anew after each wait, which is when it changes. */
function isAborted(signal: AbortSignal | undefined): signal is AbortSignal {
  return signal?.aborted === true;
}
