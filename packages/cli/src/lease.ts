/** Keeps the sandbox of a running command alive for short spans, so that it ends soon after a command line that was killed. */
import type { SandboxesPort } from '@boxkite/protocol';
import { BoxkiteFailure } from '@boxkite/protocol';

/** How long such a sandbox outlives its command line. */
export const LEASE_MINUTES = 10;
const RENEW_MS = 60_000;

/** Extends the life of a sandbox until `end` is called. */
export class Lease {
  readonly #timer: NodeJS.Timeout;

  constructor(sandboxes: Pick<SandboxesPort, 'extend'>, id: string) {
    this.#timer = setInterval(() => void renew(sandboxes, id), RENEW_MS);
    this.#timer.unref();
  }

  end(): void {
    clearInterval(this.#timer);
  }
}

async function renew(sandboxes: Pick<SandboxesPort, 'extend'>, id: string): Promise<void> {
  try {
    await sandboxes.extend(id, LEASE_MINUTES);
  } catch (error) {
    // There are more renewals before the time is over, and the output tells when the sandbox is gone.
    if (!(error instanceof BoxkiteFailure)) throw error;
  }
}
