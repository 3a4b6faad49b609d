/** `SandboxProvider` of this machine: what the SDK and the command use where no daemon runs. */
import type { SandboxPort, SandboxProvider, SandboxSpec } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { LocalOptions } from './substrate.ts';
import { LocalSubstrate } from './substrate.ts';

class LocalProvider implements SandboxProvider {
  readonly #substrate: LocalSubstrate;

  constructor(options: LocalOptions) {
    this.#substrate = new LocalSubstrate(options);
  }

  async create(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxPort> {
    const handle = await this.#substrate.start(spec, signal);
    const endpoint = await this.#substrate.endpoint(handle);
    return endpoint.port;
  }

  close(): Promise<void> {
    return this.#substrate.close();
  }
}

/** Sandboxes in private runners of this process. Errors: `unsupported_platform` on anything but Linux. */
export function createLocalProvider(options: LocalOptions = {}): SandboxProvider {
  assertLinux();
  return new LocalProvider(options);
}

/** Errors: `unsupported_platform`, which says what to do instead. */
export function assertLinux(platform: string = process.platform): void {
  if (platform === 'linux') return;
  throw new BoxkiteError('unsupported_platform', `boxkite runs sandboxes on Linux, and this is ${platform}`, {
    hint: 'Use it inside a Linux virtual machine (Lima, WSL 2, Docker Desktop), or use a boxkite server that runs on Linux.',
  });
}
