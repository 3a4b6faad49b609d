/** `SandboxPort` over `/v1`. */
import type { Effective, ExecEvent, ExecHandle, ExecRequest, SandboxPort } from '@boxkite/protocol';
import { BoxkiteError, PortExecHandle } from '@boxkite/protocol';
import { within } from './backoff.ts';
import type { HttpClient } from './client.ts';
import { HttpExecs } from './execs.ts';
import { HttpFiles } from './files.ts';
import { finishThenUndo } from './undo.ts';

/** ms from an abort in which a command's end is waited for. */
const CANCEL_MS = 5000;
/** ms that a destroy waits for readers that have just been asked for. */
const OPENING_MS = 500;

/** One sandbox of a server. */
export class HttpSandbox implements SandboxPort {
  readonly id: string;
  readonly effective: Effective;
  readonly execs: HttpExecs;
  readonly files: HttpFiles;
  readonly #destroy: () => Promise<void>;
  /** What calls are told after `destroy`. */
  #closed: BoxkiteError | null = null;

  constructor(client: HttpClient, id: string, effective: Effective, destroy: () => Promise<void>) {
    this.id = id;
    this.effective = effective;
    this.#destroy = destroy;
    const guarded = client.guardedBy(() => this.#closed);
    this.execs = new HttpExecs(guarded, id, () => this.effective);
    this.files = new HttpFiles(guarded, id);
  }

  async exec(request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle> {
    const { execs } = this;
    const summary = await finishThenUndo(
      () => execs.start(request),
      ({ exec_id }) => execs.kill(exec_id),
      signal,
    );
    return handleOf(execs, summary.exec_id, this.effective, signal);
  }

  async destroy(): Promise<void> {
    await within(OPENING_MS, this.execs.opened());
    await this.#destroy();
    // Not before: whoever follows a command of it is told its end by calls of their own.
    this.#closed ??= new BoxkiteError('closing', 'the sandbox is destroyed');
  }
}

/** A started exec, followed by HTTP and written to call by call. */
function handleOf(execs: HttpExecs, id: string, effective: Effective, signal: AbortSignal | undefined): ExecHandle {
  /** Ends the reading of a cancelled command whose end does not come. */
  const givenUp = new AbortController();
  let iterated = false;
  /** Whoever iterates sees the end of the command; one that has ended already needs no killing. */
  const cancel = (): void => {
    execs.kill(id).catch(() => undefined);
    const timer = setTimeout(() => givenUp.abort(signal?.reason), CANCEL_MS);
    // Only somebody who waits for the end keeps the program for it.
    if (typeof timer === 'object') timer.unref();
  };
  if (signal?.aborted === true) cancel();
  else signal?.addEventListener('abort', cancel, { once: true });
  return new PortExecHandle(execs, id, effective, () => {
    if (iterated) throw new BoxkiteError('internal', 'the events of a command can be read once');
    iterated = true;
    // The signal may be that of many commands, and outlive all of them.
    return untilEnded(execs.output(id, {}, givenUp.signal), () => signal?.removeEventListener('abort', cancel));
  });
}

/** The same events; calls back at the end that they tell. */
async function* untilEnded(events: AsyncIterable<ExecEvent>, ended: () => void): AsyncGenerator<ExecEvent> {
  for await (const event of events) {
    if (event.type === 'ended') ended();
    yield event;
  }
}
