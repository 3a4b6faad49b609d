/** A substrate in memory that can be slow, fail and lose its runner. It outlives managers, as a runner does. */
import type { ExecHandle, SandboxPort } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { effective } from '../../protocol/test/values.ts';
import type {
  Endpoint,
  ObservedSandbox,
  SandboxHandle,
  Substrate,
  SubstrateEvent,
  SubstrateSpec,
} from '../src/index.ts';
import { commonPrograms, FakeExecs, isAborted } from './fake-execs.ts';
import { FakeFiles } from './fake-files.ts';

/** One sandbox. */
export class FakeSandbox implements SandboxPort {
  readonly id: string;
  readonly effective = effective;
  readonly files: FakeFiles;
  readonly execs = new FakeExecs(commonPrograms(), effective);

  constructor(id: string, files: FakeFiles) {
    this.id = id;
    this.files = files;
  }

  exec(): Promise<ExecHandle> {
    throw new BoxkiteError('unsupported', 'execs of a daemon have records');
  }

  destroy(): Promise<void> {
    throw new BoxkiteError('unsupported', 'the manager destroys');
  }
}

interface Running {
  readonly sandbox: FakeSandbox;
  readonly kind: 'tmpfs' | 'disk';
}

export type Step = 'start' | 'started' | 'endpoint' | 'destroy' | 'stop' | 'discard' | 'workspaces' | 'list';

export class FakeSubstrate implements Substrate {
  readonly running = new Map<SandboxHandle, Running>();
  readonly kept = new Map<string, FakeFiles>();
  /** Called at each step: may wait, or throw. */
  at: (step: Step, id: string | null, signal?: AbortSignal) => Promise<void> | void = () => undefined;
  #watchers = new Set<(event: SubstrateEvent) => void>();
  #count = 0;

  async start(spec: SubstrateSpec, signal?: AbortSignal): Promise<SandboxHandle> {
    await this.at('start', spec.id);
    if (isAborted(signal)) throw new BoxkiteError('aborted', 'the start was cancelled');
    const kind = spec.workspace ?? 'tmpfs';
    const files = this.#files(spec, kind);
    this.#count += 1;
    const handle = `h${this.#count}` as SandboxHandle;
    this.running.set(handle, { sandbox: new FakeSandbox(spec.id, files), kind });
    try {
      await this.at('started', spec.id, signal);
      if (isAborted(signal)) throw new BoxkiteError('aborted', 'the start was cancelled');
      if (!this.running.has(handle)) throw new BoxkiteError('runner_lost', 'the runner has ended');
    } catch (error) {
      this.running.delete(handle);
      if (kind === 'disk' && spec.reopen !== true) this.kept.delete(spec.id);
      throw error;
    }
    return handle;
  }

  async claim(): Promise<null> {
    return null;
  }

  async endpoint(handle: SandboxHandle): Promise<Endpoint> {
    await this.at('endpoint', null);
    const found = this.running.get(handle);
    if (found === undefined) throw new BoxkiteError('not_found', 'there is no such sandbox');
    return { kind: 'port', port: found.sandbox };
  }

  async destroy(handle: SandboxHandle): Promise<void> {
    await this.at('destroy', this.running.get(handle)?.sandbox.id ?? null);
    const found = this.running.get(handle);
    if (found === undefined) return;
    this.#remove(handle, 'destroyed');
    if (found.kind === 'disk') this.kept.delete(found.sandbox.id);
  }

  async stop(handle: SandboxHandle): Promise<void> {
    const found = this.running.get(handle);
    if (found === undefined) throw new BoxkiteError('not_found', 'there is no such sandbox');
    if (found.kind !== 'disk') throw new BoxkiteError('workspace_not_kept', 'it is in memory');
    await this.at('stop', found.sandbox.id);
    this.#remove(handle, 'destroyed');
  }

  async discard(id: string): Promise<void> {
    await this.at('discard', id);
    this.kept.delete(id);
  }

  async workspaces(): Promise<readonly string[]> {
    await this.at('workspaces', null);
    return [...this.kept.keys()];
  }

  async list(options: { readonly usage?: boolean } = {}): Promise<readonly ObservedSandbox[]> {
    await this.at('list', null);
    return [...this.running].map(([handle, { sandbox }]) => ({
      handle,
      id: sandbox.id,
      state: 'ready',
      usage:
        options.usage === true ? { memory_bytes: 1024, cpu_ms: 2, processes: 1, execs: sandbox.execs.running } : null,
    }));
  }

  watch(signal: AbortSignal): AsyncIterable<SubstrateEvent> {
    const queue: SubstrateEvent[] = [];
    let wake: () => void = () => undefined;
    const watcher = (event: SubstrateEvent): void => {
      queue.push(event);
      wake();
    };
    this.#watchers.add(watcher);
    signal.addEventListener('abort', () => {
      this.#watchers.delete(watcher);
      wake();
    });
    return (async function* events() {
      while (!signal.aborted) {
        const event = queue.shift();
        if (event !== undefined) yield event;
        else {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    })();
  }

  /** The runner ends with all it holds; disk workspaces stay. */
  loseRunner(): void {
    for (const handle of [...this.running.keys()]) this.#remove(handle, 'runner_lost');
  }

  /** The sandbox of an id, if it runs. */
  find(id: string): FakeSandbox | undefined {
    return [...this.running.values()].find(({ sandbox }) => sandbox.id === id)?.sandbox;
  }

  #files(spec: SubstrateSpec, kind: 'tmpfs' | 'disk'): FakeFiles {
    if (kind === 'tmpfs') return new FakeFiles();
    const kept = this.kept.get(spec.id);
    if (spec.reopen === true && kept === undefined) throw new BoxkiteError('workspace_not_kept', 'it is gone');
    const files = kept ?? new FakeFiles();
    this.kept.set(spec.id, files);
    return files;
  }

  #remove(handle: SandboxHandle, reason: 'destroyed' | 'runner_lost'): void {
    this.running.get(handle)?.sandbox.execs.end();
    this.running.delete(handle);
    for (const watcher of this.#watchers) watcher({ type: 'gone', handle, reason });
  }
}
