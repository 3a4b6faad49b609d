/** Sandboxes of a server over `/v1`: a daemon of this machine, or one elsewhere. */
import type {
  ApiKey,
  ApiKeysPort,
  NewApiKey,
  SandboxesPort,
  SandboxPort,
  SandboxSpec,
  SandboxSummary,
  SandboxWithUsage,
  ServerPort,
} from '@boxkite/protocol';
import { BoxkiteError, BoxkiteFailure, v1 } from '@boxkite/protocol';
import { sandboxSummary } from './answers.ts';
import type { Call, Schema } from './client.ts';
import { HttpClient } from './client.ts';
import { sandboxPath, withQuery } from './paths.ts';
import { HttpSandbox } from './sandbox.ts';
import type { Transport } from './transport.ts';
import { finishThenUndo } from './undo.ts';

/** Puts a directory of the caller into a new sandbox. */
export type CopyIn = (sandbox: SandboxPort, directory: string, signal: AbortSignal | undefined) => Promise<void>;

/** What a provider over HTTP is made of. */
export interface HttpProviderParts {
  readonly transport: Transport;
  /** As people see it, without a key. */
  readonly url: string;
  /** Checks `spec.copy` before a sandbox is made for it, and then copies it. */
  readonly copy: { readonly check: (directory: string) => Promise<void>; readonly copyIn: CopyIn };
}

const LIST_PAGE = 200;
const PAGE_BYTES = 64 * 1024 * 1024;

/** `ServerPort` over HTTP. */
export class HttpProvider implements ServerPort {
  readonly sandboxes: HttpSandboxes;
  readonly keys: ApiKeysPort;
  readonly #client: HttpClient;
  readonly #copy: HttpProviderParts['copy'];

  constructor(parts: HttpProviderParts) {
    this.#client = new HttpClient(parts.transport, parts.url);
    this.#copy = parts.copy;
    this.sandboxes = new HttpSandboxes(this.#client);
    this.keys = new HttpKeys(this.#client);
  }

  /** Where it is, without a key. */
  get url(): string {
    return this.#client.url;
  }

  async create(spec: SandboxSpec, signal?: AbortSignal): Promise<SandboxPort> {
    const { copy, ...fields } = spec;
    if (copy !== undefined) await this.#copy.check(copy);
    const json = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
    const headers = { 'idempotency-key': this.#client.idempotencyKey() };
    const call: Call = { method: 'POST', path: '/v1/sandboxes', json, headers, repeat: 'keyed' };
    const made = await finishThenUndo(
      () => this.#client.json(call, v1.createdSandbox),
      ({ id }) => this.sandboxes.destroy(id),
      signal,
    );
    const sandbox = this.sandboxes.port(made);
    if (copy === undefined) return sandbox;
    try {
      await this.#copy.copyIn(sandbox, copy, signal);
      return sandbox;
    } catch (error) {
      await sandbox.destroy();
      throw error;
    }
  }

  usage(signal?: AbortSignal): AsyncIterable<SandboxWithUsage> {
    return this.sandboxes.pages({ active_only: true, usage: true }, signal, (sandbox) => ({
      ...sandboxSummary(sandbox),
      usage: sandbox.usage ?? null,
    }));
  }

  /** What the server is and does. Errors: `admin_required`. */
  status(signal?: AbortSignal): Promise<v1.Status> {
    return this.#client.json({ method: 'GET', path: '/v1/status', repeat: 'repeatable', signal }, v1.status);
  }

  /** Whether a server answers there; needs no key. */
  async health(signal?: AbortSignal): Promise<void> {
    await this.#client.json({ method: 'GET', path: '/health', repeat: 'repeatable', signal }, v1.health);
  }

  async close(): Promise<void> {
    this.#client.close();
  }
}

/** `SandboxesPort` over HTTP. */
export class HttpSandboxes implements SandboxesPort {
  readonly #client: HttpClient;

  constructor(client: HttpClient) {
    this.#client = client;
  }

  /** Errors: `sandbox_not_ready`. */
  port(sandbox: v1.Sandbox): HttpSandbox {
    const { id, effective, state } = sandbox;
    if (effective === null || state !== 'ready') {
      throw new BoxkiteError('sandbox_not_ready', `the sandbox ${id} is ${state}`, { details: { id, state } });
    }
    return new HttpSandbox(this.#client, id, effective, () => this.destroy(id));
  }

  async connect(id: string, signal?: AbortSignal): Promise<SandboxPort> {
    return this.port(await this.#get(id, signal));
  }

  async get(id: string, signal?: AbortSignal): Promise<SandboxSummary> {
    return sandboxSummary(await this.#get(id, signal));
  }

  list(signal?: AbortSignal, filter: { readonly active_only?: boolean } = {}): AsyncIterable<SandboxSummary> {
    return this.pages({ active_only: filter.active_only }, signal, sandboxSummary);
  }

  async extend(id: string, minutes: number, signal?: AbortSignal): Promise<SandboxSummary> {
    return sandboxSummary(await this.#change(id, '/extend', { minutes }, signal));
  }

  async stop(id: string, signal?: AbortSignal): Promise<SandboxSummary> {
    return sandboxSummary(await this.#change(id, '/stop', {}, signal));
  }

  async start(id: string, signal?: AbortSignal): Promise<SandboxPort> {
    return this.port(await this.#change(id, '/start', {}, signal));
  }

  async destroy(id: string): Promise<void> {
    try {
      await this.#client.done({ method: 'DELETE', path: sandboxPath(id), repeat: 'repeatable' });
    } catch (error) {
      // It was destroyed before, maybe by this very call, whose answer was lost.
      if (!(error instanceof BoxkiteFailure) || error.code !== 'not_found') throw error;
    }
  }

  /** Every sandbox of a list, page by page. */
  async *pages<T>(
    query: { readonly active_only?: boolean | undefined; readonly usage?: boolean | undefined },
    signal: AbortSignal | undefined,
    shown: (sandbox: v1.ListedSandbox) => T,
  ): AsyncGenerator<T, void, undefined> {
    let cursor: string | undefined;
    do {
      const path = withQuery('/v1/sandboxes', { ...query, limit: LIST_PAGE, cursor });
      const call: Call = { method: 'GET', path, repeat: 'repeatable', signal };
      const page: Page = await this.#client.read(
        call,
        (value, response) => ({
          sandboxes: this.#checked(v1.sandboxList, value),
          next: nextCursor(response.header('link')),
        }),
        PAGE_BYTES,
      );
      for (const sandbox of page.sandboxes) yield shown(sandbox);
      if (page.next !== undefined && page.next === cursor)
        throw this.#client.unexpected('is a page that leads to itself');
      cursor = page.next;
    } while (cursor !== undefined);
  }

  #get(id: string, signal?: AbortSignal): Promise<v1.Sandbox> {
    return this.#client.json({ method: 'GET', path: sandboxPath(id), repeat: 'repeatable', signal }, v1.sandbox);
  }

  /** Each of these changes gives the same end twice. */
  #change(id: string, rest: string, json: unknown, signal?: AbortSignal): Promise<v1.Sandbox> {
    const call: Call = { method: 'POST', path: sandboxPath(id, rest), json, repeat: 'repeatable', signal };
    return this.#client.json(call, v1.sandbox);
  }

  #checked<T>(schema: Schema<T>, value: unknown): T {
    const checked = schema.safeParse(value);
    if (checked.success) return checked.data;
    throw this.#client.unexpected('is no list of sandboxes', checked.error);
  }
}

interface Page {
  readonly sandboxes: readonly v1.ListedSandbox[];
  readonly next: string | undefined;
}

/** The cursor of the next page; where its link leads is not followed. */
function nextCursor(link: string | null): string | undefined {
  const target = /<([^<>]{1,2000})>\s*;\s*rel="?next"?/.exec(link ?? '')?.[1];
  if (target === undefined) return undefined;
  return new URLSearchParams(target.slice(target.indexOf('?') + 1)).get('cursor') ?? undefined;
}

class HttpKeys implements ApiKeysPort {
  readonly #client: HttpClient;

  constructor(client: HttpClient) {
    this.#client = client;
  }

  create(
    options: { readonly name: string; readonly account?: string | undefined; readonly admin?: boolean | undefined },
    signal?: AbortSignal,
  ): Promise<NewApiKey> {
    const { name, account, admin } = options;
    const json = { name, ...(account === undefined ? {} : { account }), ...(admin === undefined ? {} : { admin }) };
    // A key is shown once, so that a repeated call would leave one that nobody knows.
    return this.#client.json({ method: 'POST', path: '/v1/api-keys', json, repeat: 'once', signal }, v1.createdKey);
  }

  list(signal?: AbortSignal): Promise<readonly ApiKey[]> {
    return this.#client.json({ method: 'GET', path: '/v1/api-keys', repeat: 'repeatable', signal }, v1.apiKeyList);
  }

  async remove(id: string, signal?: AbortSignal): Promise<void> {
    const path = `/v1/api-keys/${encodeURIComponent(id)}`;
    await this.#client.done({ method: 'DELETE', path, repeat: 'once', signal });
  }
}
