import type { Effective } from './effective.ts';
import type { ExecEvent, ExecHandle, ExecsPort } from './port.ts';

/** A started exec as its starter holds it, over the port that keeps its record. */
export class PortExecHandle implements ExecHandle {
  readonly exec_id: string;
  readonly effective: Effective;
  readonly #execs: ExecsPort;
  readonly #events: () => AsyncIterator<ExecEvent>;

  /** `events` is called at the beginning of each loop. */
  constructor(execs: ExecsPort, execId: string, effective: Effective, events: () => AsyncIterator<ExecEvent>) {
    this.exec_id = execId;
    this.effective = effective;
    this.#execs = execs;
    this.#events = events;
  }

  [Symbol.asyncIterator](): AsyncIterator<ExecEvent> {
    return this.#events();
  }

  write(data: Uint8Array): Promise<void> {
    return this.#execs.write(this.exec_id, data);
  }

  closeStdin(): Promise<void> {
    return this.#execs.closeStdin(this.exec_id);
  }

  signal(signal: string | number): Promise<void> {
    return this.#execs.signal(this.exec_id, signal);
  }

  kill(): Promise<void> {
    return this.#execs.kill(this.exec_id);
  }

  resize(columns: number, rows: number): Promise<void> {
    return this.#execs.resize(this.exec_id, columns, rows);
  }
}
