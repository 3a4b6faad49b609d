/** Values of the secrets that a session was granted: asked for late, from the control plane that `/configure` named. */
import { refusedEnvironmentName } from '@boxkite/policy';
import { BoxkiteError } from '@boxkite/protocol';
import { boundedBytes } from './bounded-body.ts';
import type { Configured } from './configuration.ts';
import { MOST_VALUE_BYTES, MOST_VALUES } from './known-secrets.ts';
import type { SessionCore, SessionPart } from './part.ts';

/** Why a variable was left out. */
export interface OmittedSecret {
  /** Of the variable. */
  readonly name: string;
  /** `name_refused`: no variable may be called so. `not_granted`: to this session. `unresolved`: its value could not be had. */
  readonly reason: 'name_refused' | 'not_granted' | 'unresolved';
}

/** Variables with their values. */
export interface GrantedSecrets {
  readonly values: Readonly<Record<string, string>>;
  /** The name of the secret of each variable. */
  readonly labels: Readonly<Record<string, string>>;
  readonly omitted: readonly OmittedSecret[];
}

/** What the broker knows of time and of the network. */
export interface BrokerEdges {
  /** ms; never goes back. */
  now(): number;
  fetch: typeof fetch;
}

const KEPT_MS = 300_000;
const DEADLINE_MS = 10_000;
/** Of an answer: each character of a value may be an escape of six. */
const MOST_ANSWER_BYTES = 6 * MOST_VALUE_BYTES + 4096;

/** Of one session. Values are in memory of this process alone, for as long as they are fresh. */
export class SecretsBroker implements SessionPart {
  readonly #core: Pick<SessionCore, 'configured'>;
  readonly #edges: BrokerEdges;
  readonly #values = new Map<string, { readonly value: string; readonly until: number }>();
  readonly #asking = new Map<string, Promise<string | null>>();
  /** Aborted when its use ends. */
  #use = new AbortController();

  constructor(
    core: Pick<SessionCore, 'configured'>,
    edges: BrokerEdges = { now: () => performance.now(), fetch: globalThis.fetch },
  ) {
    this.#core = core;
    this.#edges = edges;
  }

  reset(): void {
    this.#use.abort();
    this.#use = new AbortController();
    this.#values.clear();
    this.#asking.clear();
  }

  close(): void {
    this.reset();
  }

  /** What can't be given is left out, and said. Errors: `invalid_request` for more variables than a session has secrets. */
  async resolve(wanted: Readonly<Record<string, string>>): Promise<GrantedSecrets> {
    const configured = this.#core.configured();
    if (Object.keys(wanted).length > MOST_VALUES) {
      throw new BoxkiteError('invalid_request', `secret_env has more than ${MOST_VALUES} variables`, {
        details: { field: 'secret_env' },
      });
    }
    const omitted: OmittedSecret[] = [];
    const [values, labels] = [new Map<string, string>(), new Map<string, string>()];
    await Promise.all(
      Object.entries(wanted).map(async ([name, secret]) => {
        if (refusedEnvironmentName(name) !== null) omitted.push({ name, reason: 'name_refused' });
        else if (configured?.secret_names.includes(secret) !== true) omitted.push({ name, reason: 'not_granted' });
        else {
          const value = await this.#value(secret, configured);
          if (value === null) omitted.push({ name, reason: 'unresolved' });
          else {
            values.set(name, value);
            labels.set(name, secret);
          }
        }
      }),
    );
    // A variable may be called as a property of every object is.
    return { values: Object.fromEntries(values), labels: Object.fromEntries(labels), omitted };
  }

  async #value(secret: string, configured: Configured): Promise<string | null> {
    const known = this.#values.get(secret);
    if (known !== undefined && known.until > this.#edges.now()) return known.value;
    let asking = this.#asking.get(secret);
    if (asking === undefined) {
      asking = this.#ask(secret, configured);
      this.#asking.set(secret, asking);
    }
    return asking;
  }

  async #ask(secret: string, configured: Configured): Promise<string | null> {
    const { signal } = this.#use;
    const asked = this.#edges.now();
    try {
      const value = await this.#fetch(secret, configured, signal);
      if (signal.aborted) return null;
      if (value !== null) this.#values.set(secret, { value, until: asked + KEPT_MS });
      return value;
    } catch {
      // What went wrong may repeat the token or the value.
      return null;
    } finally {
      if (!signal.aborted) this.#asking.delete(secret);
    }
  }

  async #fetch(secret: string, configured: Configured, use: AbortSignal): Promise<string | null> {
    const { secrets_control_plane_url: base, secret_capability_token: token, session_id } = configured;
    if (base === null || token === null) return null;
    const answer = await this.#edges.fetch(`${base.replace(/\/+$/, '')}/internal/secrets/resolve`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify({ session_id, secret_name: secret }),
      redirect: 'manual',
      signal: AbortSignal.any([use, AbortSignal.timeout(DEADLINE_MS)]),
    });
    if (answer.status !== 200) {
      await answer.body?.cancel();
      return null;
    }
    const bytes = await boundedBytes(answer, MOST_ANSWER_BYTES);
    if (bytes === null) return null;
    const parsed: unknown = JSON.parse(bytes.toString());
    const value = typeof parsed === 'object' && parsed !== null && 'value' in parsed ? parsed.value : null;
    return typeof value === 'string' && isUsable(value) ? value : null;
  }
}

/** Whether a variable can have it, and output can be searched for it. */
function isUsable(value: string): boolean {
  return !value.includes('\0') && value.isWellFormed() && Buffer.byteLength(value) <= MOST_VALUE_BYTES;
}
