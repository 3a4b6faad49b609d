import type { Buffer } from 'node:buffer';
import type { Socket } from 'node:net';
import { BoxkiteError, type ExecRequest } from '@boxkite/protocol';
import { decodeAttached, decodeListing, decodeOpened, decodeProbed } from './answers.ts';
import { Connection } from './connection.ts';
import { startExec } from './exec-call.ts';
import { Environment, execFields } from './exec-fields.ts';
import { RunnerExecution } from './execution.ts';
import { abortedBy, runnerLost } from './faults.ts';
import { FileAgentClient } from './files/index.ts';
import { FrameType } from './frames.ts';
import { handOver } from './handover.ts';
import { checkOpen } from './open-request.ts';
import {
  type ExecFields,
  encodeAttach,
  encodeClose,
  encodeFile,
  encodeList,
  encodeOpen,
  encodeProbe,
} from './operations.ts';
import { StdinWriter } from './stdin.ts';
import type {
  FileView,
  OpenedSandbox,
  OpenRequest,
  ProbeReport,
  RunnerClientOptions,
  RunnerListing,
  SandboxId,
} from './types.ts';

/** Request number of a connection's only frame. */
const ONLY_REQUEST = 1;
const MAX_ID = 0xffff_ffff_ffff_ffffn;

/** Speaks to one runner over one multiplexed connection. Every failure is a `BoxkiteError`. */
export class RunnerClient {
  readonly #connection: Connection;
  readonly #connect: () => Promise<Socket>;
  readonly #environment: Environment;

  /** `socket` is connected: the owner's descriptor, or one more connection to `runner.sock`. The client owns it from here. */
  constructor(socket: Socket, options: RunnerClientOptions) {
    this.#connect = options.connect;
    this.#environment = new Environment(options.environment);
    this.#connection = new Connection(socket);
  }

  /** Resolves, never rejects, when the connection is gone: after it every call fails with `runner_lost`. */
  get lost(): Promise<void> {
    return this.#connection.lost;
  }

  /** Aborting rejects `aborted` when no sandbox is left of it. Errors: `isolation_unavailable`, `capacity`, `invalid_request`. */
  async openSandbox(request: OpenRequest, signal?: AbortSignal): Promise<OpenedSandbox> {
    if (isAborted(signal)) throw abortedBy(signal);
    checkOpen(request);
    const opened = await this.#connection.request(
      (number) => encodeOpen(number, request),
      FrameType.opened,
      decodeOpened,
    );
    if (!isAborted(signal)) return opened;
    await this.closeSandbox(opened.sandbox);
    throw abortedBy(signal);
  }

  /** Resolves when nothing of it is left; an unknown one resolves too. */
  async closeSandbox(sandbox: SandboxId): Promise<void> {
    try {
      await this.#connection.request((number) => encodeClose(number, sandbox), FrameType.done, nothing);
    } catch (error) {
      if (!(error instanceof BoxkiteError) || error.code !== 'not_found') throw error;
    }
  }

  /**
   * Starts a command. Aborting before the start rejects `aborted` when nothing of it runs; after the start it kills the
   * exec. `limits.output_bytes` bounds what the handle gives out per stream; the rest is one gap before the end.
   */
  exec(sandbox: SandboxId, request: ExecRequest, signal?: AbortSignal): Promise<RunnerExecution> {
    if (isAborted(signal)) return Promise.reject(abortedBy(signal));
    let fields: ExecFields;
    try {
      fields = execFields(sandbox, request, this.#environment);
    } catch (error) {
      if (error instanceof BoxkiteError) return Promise.reject(error);
      throw error;
    }
    return startExec(this.#connection, fields, {
      request,
      outputBytes: request.limits?.output_bytes,
      stdin: fields.stdin === 2 ? (exec) => this.#stdin(exec) : null,
      // Too long for the request itself.
      input: fields.stdin === 2 && request.stdin instanceof Uint8Array ? request.stdin : null,
      signal,
    });
  }

  /**
   * Becomes the consumer of an exec that another connection started, from what is not committed on; also of one that has
   * ended and whose record is still kept. Errors: `not_found`; `invalid_request` where this client consumes it already.
   */
  attach(execId: string): Promise<RunnerExecution> {
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
          const start = { exec, effective, stdoutFrom, stderrFrom, outputBytes: undefined, stdin: this.#stdin(exec) };
          const execution = new RunnerExecution(this.#connection, start);
          this.#connection.consume(exec, execution);
          resolve(execution);
        },
        fail: reject,
      });
    });
  }

  /** Sandboxes of the runner, and execs whose record it still keeps. */
  list(): Promise<RunnerListing> {
    return this.#connection.request(encodeList, FrameType.listing, decodeListing);
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

  #stdin(exec: bigint): StdinWriter {
    return new StdinWriter(() => this.#handedOver(encodeAttach(ONLY_REQUEST, exec, 1)));
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
