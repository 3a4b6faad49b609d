/** `SandboxProvider` of this machine: what the SDK and the command use where no daemon runs. */
import type { SandboxPort, SandboxProvider, SandboxSpec } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { LocalOptions } from './private-sandboxes.ts';
import { PrivateSandboxes } from './private-sandboxes.ts';

class LocalProvider implements SandboxProvider {
  /** A private sandbox ends with this process, so that none can be found again. */
  readonly sandboxes = null;
  readonly #private: PrivateSandboxes;

  constructor(options: LocalOptions) {
    this.#private = new PrivateSandboxes(options);
  }

  async create(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxPort> {
    refuseLasting(spec);
    return this.#private.port(await this.#private.start(spec, signal));
  }

  close(): Promise<void> {
    return this.#private.close();
  }
}

/** What only something that outlives this process can keep its word on. */
function refuseLasting(spec: SandboxSpec): void {
  const field = (['label', 'lifetime_minutes'] as const).find((name) => spec[name] !== undefined);
  const lasting = field ?? (spec.workspace === 'disk' ? 'workspace' : undefined);
  if (lasting === undefined) return;
  throw new BoxkiteError('unsupported', `${lasting} needs a daemon, and this sandbox ends with its process`, {
    hint: 'Start the daemon by `boxkite serve`, or leave the option out.',
    details: { field: lasting },
  });
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
