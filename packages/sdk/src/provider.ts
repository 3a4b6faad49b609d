/** Where sandboxes come from when the caller doesn't say: private runners of this process, loaded at first use. */

import type { SandboxProvider } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';

/** The platform, where there is one to ask; a browser has none. */
function platform(): string {
  return typeof process === 'object' && typeof process.platform === 'string' ? process.platform : 'a browser';
}

async function load(): Promise<SandboxProvider> {
  const here = platform();
  if (here !== 'linux') {
    throw new BoxkiteError('unsupported_platform', `boxkite runs sandboxes on Linux, and this is ${here}`, {
      hint: 'Use it inside a Linux virtual machine (Lima, WSL 2, Docker Desktop), or pass a `provider`.',
    });
  }
  // An import of the package's own map: a bundle for a browser gets `no-local.ts` by its condition.
  const { createLocalProvider } = await import('#local');
  return createLocalProvider();
}

/** Makes the provider once, also for concurrent callers; a failed attempt is not kept. */
export class DefaultProvider {
  #loading: Promise<SandboxProvider> | null = null;

  get(): Promise<SandboxProvider> {
    this.#loading ??= load().catch((error: unknown) => {
      this.#loading = null;
      throw error;
    });
    return this.#loading;
  }
}
