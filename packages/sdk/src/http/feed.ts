/** Input that is too long to go with the start of its command, and is written behind it. */
import type { ExecEvent, ExecRecord, ExecsPort } from '@boxkite/protocol';
import { BoxkiteFailure } from '@boxkite/protocol';

const ENOUGH: ReadonlySet<string> = new Set(['exec_ended', 'stdin_closed']);
/** There is nothing left to kill, and its reader is told so by its output. */
const GONE: ReadonlySet<string> = new Set(['exec_ended', 'not_found', 'closing']);

/** The input of one exec. Where a part of it is lost, the command is killed and its readers get what the loss was. */
export class Feed {
  readonly #execs: Pick<ExecsPort, 'write' | 'closeStdin' | 'kill'>;
  readonly #id: string;
  #loss: { readonly error: unknown } | null = null;
  /** Aborts where the command could not be killed either: its end is not to be waited for. */
  readonly #unkilled = new AbortController();

  constructor(execs: Pick<ExecsPort, 'write' | 'closeStdin' | 'kill'>, execId: string) {
    this.#execs = execs;
    this.#id = execId;
  }

  /** Hands all of it on. Never rejects; `false`: a part of it is lost. */
  async pass(data: Uint8Array): Promise<boolean> {
    try {
      await this.#execs.write(this.#id, data);
      await this.#execs.closeStdin(this.#id);
      return true;
    } catch (error) {
      if (hasEnough(error)) return true;
      await this.#lose(error);
      return false;
    }
  }

  /** What ends the reading of the output. */
  bounded(signal: AbortSignal | undefined): AbortSignal {
    return signal === undefined ? this.#unkilled.signal : AbortSignal.any([signal, this.#unkilled.signal]);
  }

  /** Events that are read within `bounded(signal)`, with the loss instead of the record of a command that it has killed. */
  async *guard(
    events: AsyncIterable<ExecEvent>,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<ExecEvent, void, undefined> {
    try {
      for await (const event of events) {
        if (event.type === 'ended' && this.#loss !== null && wasKilled(event.record)) throw this.#loss.error;
        yield event;
      }
    } catch (error) {
      throw this.#unkilled.signal.aborted && signal?.aborted !== true ? this.#unkilled.signal.reason : error;
    }
  }

  /** It would take a part for the whole, or wait for the rest for ever. */
  async #lose(error: unknown): Promise<void> {
    this.#loss = { error };
    try {
      await this.#execs.kill(this.#id);
    } catch (failure) {
      if (!isOneOf(GONE, failure)) this.#unkilled.abort(error);
    }
  }
}

/** Whether input was refused by a command that has what it wants of it: its end, or that of its input. */
export function hasEnough(error: unknown): boolean {
  return isOneOf(ENOUGH, error);
}

function isOneOf(codes: ReadonlySet<string>, error: unknown): boolean {
  return error instanceof BoxkiteFailure && codes.has(error.code);
}

function wasKilled({ end, reason }: ExecRecord): boolean {
  return end === 'killed' && reason === 'requested';
}
