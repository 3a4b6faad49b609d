/** Node's connection to the runner above it, which serves it beside its owner. */
import { connect, type OnReadOpts, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import { COMMAND_ENVIRONMENT, ReadMemory, type RunnerAccess, RunnerClient } from '@boxkite/runner-client';

const POLL_MS = 2;
/** Of standard input that commands have not read yet. */
const MOST_STDIN_BYTES = 512 * 1024 * 1024;

/** The daemon's runner. Its end is the end of every sandbox, and of this process too. */
export class RunnerConnection implements RunnerAccess {
  readonly #client: RunnerClient;
  #ended = false;

  private constructor(socket: Socket, memory: ReadMemory, path: string) {
    this.#client = new RunnerClient(socket, {
      connect: () => dial(path),
      environment: COMMAND_ENVIRONMENT,
      memory,
      stdinBytes: MOST_STDIN_BYTES,
    });
    void this.#client.lost.then(() => {
      this.#ended = true;
    });
  }

  /** Connects when the runner accepts, which it does once it serves. Errors: `runner_lost` after the deadline. */
  static async open(path: string, deadlineMs: number): Promise<RunnerConnection> {
    const end = Date.now() + deadlineMs;
    while (true) {
      try {
        const memory = new ReadMemory();
        return new RunnerConnection(await dial(path, memory.options), memory, path);
      } catch (error) {
        if (Date.now() > end)
          throw new BoxkiteError('runner_lost', 'the runner does not accept connections', { cause: error });
        await sleep(POLL_MS);
      }
    }
  }

  get lost(): Promise<void> {
    return this.#client.lost;
  }

  get ended(): boolean {
    return this.#ended;
  }

  call<T>(run: (client: RunnerClient) => Promise<T>): Promise<T> {
    return run(this.#client);
  }

  /** Ends the connection; what runs in sandboxes goes on. */
  close(): Promise<void> {
    return this.#client.close();
  }
}

function dial(path: string, onread?: OnReadOpts): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path, allowHalfOpen: true, ...(onread === undefined ? {} : { onread }) });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}
