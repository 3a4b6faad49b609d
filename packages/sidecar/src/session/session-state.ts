/** What a session has to have back after a restart of this process, as one blob of its supervisor. */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { type Configured, configuredSchema } from './configuration.ts';
import { type KeptSecrets, keptSecretsSchema } from './known-secrets.ts';

/** Where the blob is kept: in memory of somebody who outlives this process and ends with the runner. */
export interface StateBlob {
  /** `null` where none was put since the runner started. */
  get(): Uint8Array | null;
  /** Resolves when the next process will get it. */
  put(blob: Uint8Array): Promise<void>;
}

const stateSchema = z.object({
  version: z.literal(1),
  /** Of the runner's life: its numbers of execs mean nothing beyond it. */
  instance: z.string(),
  secrets: keptSecretsSchema,
  configured: configuredSchema.nullable(),
  /** That use has ended, and the next one has not begun. */
  between: z.boolean().default(false),
  /** What the session's parts keep, by their names. */
  parts: z.record(z.string(), z.unknown()).default({}),
});

type State = z.output<typeof stateSchema>;

/** The blob of one session. */
export class SessionState {
  readonly #blob: StateBlob;
  readonly #secrets: () => KeptSecrets;
  readonly instance: string;
  /** Whether an earlier process of this runner has left it. */
  readonly found: boolean;
  readonly foundSecrets: KeptSecrets | undefined;
  /** What an earlier process kept of the session's parts. */
  readonly foundParts: Readonly<Record<string, unknown>>;
  #configured: Configured | null;
  #isBetween: boolean;
  #parts: () => Readonly<Record<string, unknown>> = () => this.foundParts;
  #saving: Promise<void> = Promise.resolve();
  /** The save that has not begun yet. */
  #next: Promise<void> | null = null;

  /** `secrets` is asked at each save. */
  constructor(blob: StateBlob, secrets: () => KeptSecrets) {
    this.#blob = blob;
    this.#secrets = secrets;
    const state = readState(blob.get());
    this.found = state !== null;
    this.foundSecrets = state?.secrets;
    this.instance = state?.instance ?? randomBytes(5).toString('hex');
    this.#configured = state?.configured ?? null;
    this.#isBetween = state?.between ?? false;
    this.foundParts = state?.parts ?? {};
  }

  /** What the parts keep, from now on asked at each save. */
  set parts(kept: () => Readonly<Record<string, unknown>>) {
    this.#parts = kept;
  }

  get configured(): Configured | null {
    return this.#configured;
  }

  /** Whether the use that was configured has ended, and the next one has not begun. */
  get isBetween(): boolean {
    return this.#isBetween;
  }

  /** The use ends. Resolves when the next process will know it. */
  async leave(): Promise<void> {
    const before = this.#isBetween;
    this.#isBetween = true;
    try {
      await this.save();
    } catch (error) {
      // Nothing of the use has ended yet.
      this.#isBetween = before;
      throw error;
    }
  }

  /** A use begins. Resolves when the next process will know it. */
  configure(configured: Configured): Promise<void> {
    this.#configured = configured;
    this.#isBetween = false;
    return this.save();
  }

  /** Resolves when all that is known now is kept. Saves keep their order; one that waits for another is for all who wait. */
  save(): Promise<void> {
    if (this.#next !== null) return this.#next;
    const saving = this.#saving.then(() => {
      this.#next = null;
      return this.#put();
    });
    this.#next = saving;
    this.#saving = saving.catch(() => undefined);
    return saving;
  }

  #put(): Promise<void> {
    const state: State = {
      version: 1,
      instance: this.instance,
      secrets: this.#secrets(),
      configured: this.#configured,
      between: this.#isBetween,
      parts: this.#parts(),
    };
    return this.#blob.put(Buffer.from(JSON.stringify(state)));
  }
}

/** What cannot be read is as if it were not there: its execs are then ended as lost. */
function readState(blob: Uint8Array | null): State | null {
  if (blob === null) return null;
  try {
    const parsed = stateSchema.safeParse(JSON.parse(Buffer.from(blob).toString()));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}
