/** The private runners of one process: one for each root file system, since a runner's roots are given at its start. */

import type { StateLocation } from './private-directory.ts';
import { makePrivateDirectory } from './private-directory.ts';
import { PrivateRunner } from './private-runner.ts';
import type { RunnerBinaries } from './runner-binaries.ts';
import { findBinaries } from './runner-binaries.ts';

/** How private runners are started. */
export interface RunnerPoolOptions {
  /** Default: found beside this code. */
  readonly binaries?: Partial<RunnerBinaries> | undefined;
  /** `$XDG_RUNTIME_DIR` of the caller; default `/run/user/UID`. Root always uses `/run/boxkite`. */
  readonly runtimeDirectory?: string | undefined;
  /** Used where there is no runtime directory. Default: the system's. */
  readonly temporaryDirectory?: string | undefined;
  /** Envelopes to make ahead. Default 2. */
  readonly blanks?: number | undefined;
}

const DEFAULT_BLANKS = 2;

/** Starts runners at first use and ends them together. */
export class RunnerPool {
  readonly #options: RunnerPoolOptions;
  readonly #runners = new Map<string, PrivateRunner>();
  /** After their end, but before they are gone: they are still waited for. */
  readonly #replaced = new Set<PrivateRunner>();
  readonly #closing = new Set<Promise<void>>();

  constructor(options: RunnerPoolOptions) {
    this.#options = options;
  }

  /** The runner of a root (`host` or a real path). Starting one does not wait for it, so concurrent calls share it. Errors: `runner_failed`, `capacity`. */
  get(root: string): PrivateRunner {
    const known = this.#runners.get(root);
    if (known !== undefined && !known.ended) return known;
    if (known !== undefined) this.#replace(known);
    const runner = PrivateRunner.start({
      binaries: findBinaries(this.#options.binaries),
      directory: makePrivateDirectory(this.#location()),
      root,
      blanks: this.#options.blanks ?? DEFAULT_BLANKS,
    });
    this.#runners.set(root, runner);
    void runner.exited.then(() => {
      if (this.#runners.get(root) === runner) this.#runners.delete(root);
    });
    return runner;
  }

  /** One that has lost its connection may not be gone yet. */
  #replace(runner: PrivateRunner): void {
    this.#replaced.add(runner);
    void runner.exited.then(() => this.#replaced.delete(runner));
  }

  /** Ends every runner; resolves when all are gone. */
  async close(): Promise<void> {
    for (const runner of [...this.#runners.values(), ...this.#replaced]) this.#closing.add(runner.close());
    this.#runners.clear();
    await Promise.all(this.#closing);
    this.#closing.clear();
  }

  #location(): StateLocation {
    return {
      uid: process.geteuid?.() ?? 0,
      runtimeDirectory: this.#options.runtimeDirectory,
      temporaryDirectory: this.#options.temporaryDirectory,
    };
  }
}
