/** Sandboxes on this Linux machine, in private runners of this process. */
import type { SandboxHandle } from '@boxkite/manager';
import type { SandboxPort, SandboxSpec } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { SandboxId } from '@boxkite/runner-client';
import { measureTree, packTree } from './copy-in.ts';
import { privateGate } from './private-gate.ts';
import type { PrivateRunner } from './private-runner.ts';
import type { RunnerPoolOptions } from './runner-pool.ts';
import { RunnerPool } from './runner-pool.ts';
import { LocalSandbox } from './sandbox.ts';
import { existingDirectory, openRequest, rootOf } from './spec.ts';

/** How sandboxes are made on this machine. */
export interface LocalOptions extends RunnerPoolOptions {
  /** Told what a copy left out, one sentence each. Default: nobody is. */
  readonly onNote?: ((note: string) => void) | undefined;
  /** JSON of a command allowlist that every command needs, beside that of its sandbox. Default: none. */
  readonly allowedCommands?: string | undefined;
}

/** What is known of one sandbox from the moment its start begins. */
interface Entry {
  readonly handle: SandboxHandle;
  readonly runner: PrivateRunner;
  /** Aborted by a destroy: it wins over a start. */
  readonly stop: AbortController;
  state: 'creating' | 'ready' | 'stopping';
  sandbox: LocalSandbox | null;
  id: SandboxId | null;
  /** Resolves when a start is over, however it ended. */
  started: Promise<void>;
  gone: Promise<void> | null;
}

/** Sandboxes of private runners. They start at the first sandbox and end with `close`, or with this process. */
export class PrivateSandboxes {
  readonly #options: LocalOptions;
  readonly #runners: RunnerPool;
  readonly #entries = new Map<SandboxHandle, Entry>();
  readonly #watched = new WeakSet<PrivateRunner>();
  #closed = false;
  #count = 0;

  constructor(options: LocalOptions = {}) {
    this.#options = options;
    this.#runners = new RunnerPool(options);
  }

  async start(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxHandle> {
    if (this.#closed) throw new BoxkiteError('closing', 'this provider of sandboxes is closed');
    if (signal?.aborted === true)
      throw new BoxkiteError('aborted', 'the sandbox was not made', { cause: signal.reason });
    const request = openRequest(spec);
    const copy = spec.copy === undefined ? null : existingDirectory(spec.copy, 'copy');
    const gate = await privateGate(this.#options.allowedCommands, spec);
    if (this.#closed) throw new BoxkiteError('closing', 'this provider of sandboxes is closed');
    const entry = this.#enter(this.#runners.get(rootOf(spec)));
    const { promise, resolve } = Promise.withResolvers<void>();
    entry.started = promise;
    const both = signal === undefined ? entry.stop.signal : AbortSignal.any([signal, entry.stop.signal]);
    try {
      if (copy !== null) await this.#measure(copy, request.workspaceBytes, request.inodes, both);
      const opened = await entry.runner.call((client) =>
        client.openSandbox({ ...request, programs: gate?.programs }, both),
      );
      entry.id = opened.sandbox;
      const sandbox = new LocalSandbox({
        id: entry.handle,
        sandbox: opened.sandbox,
        effective: opened.effective,
        runner: entry.runner,
        admit: gate?.admit ?? null,
        destroy: () => this.destroy(entry.handle),
      });
      entry.sandbox = sandbox;
      if (copy !== null) await sandbox.files.unpack('/workspace', packTree(copy, both), both);
      if (both.aborted)
        throw new BoxkiteError('aborted', 'the sandbox was destroyed while it was made', { cause: both.reason });
      entry.state = 'ready';
    } catch (error) {
      resolve();
      await this.#remove(entry);
      throw error;
    }
    resolve();
    return entry.handle;
  }

  /** Errors: `not_found`. */
  port(handle: SandboxHandle): SandboxPort {
    const port = this.#entries.get(handle)?.sandbox;
    if (port === undefined || port === null) throw new BoxkiteError('not_found', `there is no sandbox ${handle}`);
    return port;
  }

  async destroy(handle: SandboxHandle): Promise<void> {
    const entry = this.#entries.get(handle);
    if (entry === undefined) return;
    entry.stop.abort(new BoxkiteError('closing', 'the sandbox is being destroyed'));
    await entry.started;
    await this.#remove(entry);
  }

  /** Destroys every sandbox and ends the runners; idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    const all = [...this.#entries.values()];
    for (const entry of all) entry.stop.abort(new BoxkiteError('closing', 'this provider of sandboxes is closed'));
    // The end of a runner is the end of all its sandboxes, faster than one after the other.
    await this.#runners.close();
    await Promise.all(all.map((entry) => this.#remove(entry)));
  }

  #enter(runner: PrivateRunner): Entry {
    this.#count += 1;
    // Unique on this machine; loading a source of randomness would be the dearest step of a start.
    const handle = `sb-${Date.now().toString(36)}-${process.pid.toString(36)}-${this.#count}` as SandboxHandle;
    const entry: Entry = {
      handle,
      runner,
      stop: new AbortController(),
      state: 'creating',
      sandbox: null,
      id: null,
      started: Promise.resolve(),
      gone: null,
    };
    this.#entries.set(handle, entry);
    this.#watchRunner(runner);
    return entry;
  }

  #watchRunner(runner: PrivateRunner): void {
    if (this.#watched.has(runner)) return;
    this.#watched.add(runner);
    void runner.client.lost.then(() => {
      for (const entry of this.#entries.values()) {
        if (entry.runner === runner && entry.state === 'ready') void this.#remove(entry);
      }
    });
  }

  async #measure(copy: string, bytes: number, inodes: number, signal: AbortSignal): Promise<void> {
    const { skipped } = await measureTree(copy, { bytes, inodes }, signal);
    for (const name of skipped)
      this.#options.onNote?.(`${copy}/${name} is a device, socket or pipe and was not copied`);
  }

  /** Takes a sandbox away once; every caller waits for the same end. */
  #remove(entry: Entry): Promise<void> {
    entry.gone ??= this.#takeAway(entry);
    return entry.gone;
  }

  async #takeAway(entry: Entry): Promise<void> {
    entry.state = 'stopping';
    entry.sandbox?.closeFiles();
    const { id } = entry;
    try {
      if (id !== null && entry.runner.ended) await entry.runner.exited;
      else if (id !== null) await entry.runner.call((client) => client.closeSandbox(id));
    } catch (error) {
      // With the runner everything that it held is gone, which is what was asked for.
      if (!(error instanceof BoxkiteError) || error.code !== 'runner_lost') {
        // It may still be there: it stays listed, and the next destroy tries again.
        entry.gone = null;
        throw error;
      }
      await entry.runner.exited;
    }
    this.#entries.delete(entry.handle);
  }
}
