/** The execs of a session as its clients have them: what starts one is counted, and is given the secrets that it names. */
import type { CollectedExec, ExecEvent, ExecRequest, ExecSummary, ExecsPort, OutputRange } from '@boxkite/protocol';
import type { OmittedSecret, SecretsBroker } from './broker.ts';
import type { Budget } from './budget.ts';
import { generationGone } from './generation.ts';
import type { SessionExecs } from './session-execs.ts';

/** What is said of the variables of a request whose values were not given to the command. */
export interface Omissions {
  readonly secret_env_omitted: readonly OmittedSecret[];
}

/** What they are made of. */
export interface ClientExecsParts {
  readonly execs: SessionExecs;
  readonly budget: Budget;
  /** Where `secret_env` names granted secrets; absent: it has their values. */
  readonly broker?: SecretsBroker | undefined;
  /** Changes when a use of the sandbox begins or ends. */
  readonly use: () => number;
}

/** `ExecsPort` of clients. Errors of what starts one also: `session_budget_exceeded`. */
export class ClientExecs implements ExecsPort {
  readonly #parts: ClientExecsParts;

  constructor(parts: ClientExecsParts) {
    this.#parts = parts;
  }

  async start(request: ExecRequest): Promise<ExecSummary & Partial<Omissions>> {
    const use = this.#parts.use();
    // What may not run counts nothing.
    this.#parts.execs.admit(request);
    await this.#parts.budget.reserve();
    const { full, omitted } = await this.#resolved(request, use);
    const { execs, budget } = this.#parts;
    const started = await execs.start(full);
    if (budget.isSpent) await execs.kill(started.exec_id);
    const summary = budget.isSpent ? await execs.get(started.exec_id) : started;
    return omitted === null ? summary : { ...summary, secret_env_omitted: omitted };
  }

  async run(request: ExecRequest, signal?: AbortSignal): Promise<CollectedExec & Omissions> {
    const use = this.#parts.use();
    this.#parts.execs.admit(request);
    return this.#parts.budget.run(async () => {
      const { full, omitted } = await this.#resolved(request, use);
      return { ...(await this.#parts.execs.run(full, signal)), secret_env_omitted: omitted ?? [] };
    });
  }

  list(): Promise<readonly ExecSummary[]> {
    return this.#parts.execs.list();
  }

  get(execId: string): Promise<ExecSummary> {
    return this.#parts.execs.get(execId);
  }

  output(execId: string, range?: OutputRange, signal?: AbortSignal): AsyncIterable<ExecEvent> {
    return this.#parts.execs.output(execId, range, signal);
  }

  write(execId: string, data: Uint8Array): Promise<void> {
    return this.#parts.execs.write(execId, data);
  }

  closeStdin(execId: string): Promise<void> {
    return this.#parts.execs.closeStdin(execId);
  }

  signal(execId: string, signal: string | number): Promise<void> {
    return this.#parts.execs.signal(execId, signal);
  }

  kill(execId: string): Promise<void> {
    return this.#parts.execs.kill(execId);
  }

  resize(execId: string, columns: number, rows: number): Promise<void> {
    return this.#parts.execs.resize(execId, columns, rows);
  }

  /** The request with values instead of names. What was asked for in an earlier use is not done in this one. */
  async #resolved(request: ExecRequest, use: number) {
    const { broker } = this.#parts;
    const { secret_env } = request;
    if (broker === undefined || secret_env === undefined) return this.#checked(use, request, null);
    const { values, labels, omitted } = await broker.resolve(secret_env);
    return this.#checked(use, { ...request, secret_env: values, labels }, omitted);
  }

  #checked<R>(use: number, full: R, omitted: readonly OmittedSecret[] | null) {
    if (use === this.#parts.use()) return { full, omitted };
    throw generationGone();
  }
}
