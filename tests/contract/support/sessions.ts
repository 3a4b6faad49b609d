/** Sessions over a private runner, for tests of records and of the sidecar's app. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunnerAccess, RunnerClient } from '@boxkite/runner-client';
import { Session, type SessionParts, type SidecarSettings, type StateBlob } from '@boxkite/sidecar/app';
import type { ObjectStore } from '@boxkite/storage';
import { startRunner, type TestRunner, type TestSpec } from '@boxkite/testing';

/** A blob in memory of this process. */
export function memoryBlob(): StateBlob {
  let kept: Uint8Array | null = null;
  return {
    get: () => kept,
    put: (blob) => {
      kept = blob;
      return Promise.resolve();
    },
  };
}

/** A runner and the directory of its records. */
export class SessionHost implements AsyncDisposable {
  readonly runner: TestRunner;
  readonly directory: string;
  /** Of sandboxes that are made from now on. */
  objects: ObjectStore | undefined;
  readonly #made = new Map<string, SessionParts>();

  private constructor(runner: TestRunner, directory: string) {
    this.runner = runner;
    this.directory = directory;
  }

  static async start(): Promise<SessionHost> {
    return new SessionHost(await startRunner(), mkdtempSync(join(tmpdir(), 'boxkite-sessions-')));
  }

  get access(): RunnerAccess {
    const { runner } = this;
    return { call: (run) => run(runner.client), ended: false, lost: runner.client.lost };
  }

  /** A sandbox and its session; of a name that was opened before, its session as the next process has it. */
  async open(name: string, spec: TestSpec = {}, settings?: SidecarSettings): Promise<Session> {
    const parts = this.#made.get(name) ?? { ...(await this.#make(name, spec)), settings };
    this.#made.set(name, parts);
    return Session.open(parts);
  }

  /** As `open`, over a connection of its own: `kill` ends it as the end of a process does. */
  async openAlone(name: string, settings?: SidecarSettings): Promise<{ session: Session; kill: () => Promise<void> }> {
    const parts = this.#made.get(name) ?? { ...(await this.#make(name, {})), settings };
    this.#made.set(name, parts);
    const client = await this.runner.anotherClient();
    const runner = { call: <T>(run: (of: RunnerClient) => Promise<T>) => run(client), ended: false, lost: client.lost };
    return { session: await Session.open({ ...parts, runner }), kill: () => client.close() };
  }

  async #make(name: string, spec: TestSpec): Promise<SessionParts> {
    const { number, effective } = await this.runner.create(spec);
    const directory = join(this.directory, name);
    const { access: runner, objects } = this;
    const blobs = { state: memoryBlob(), scratch: memoryBlob() };
    return { id: name, sandbox: number, effective, runner, directory, objects, ...blobs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.runner[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }
}
