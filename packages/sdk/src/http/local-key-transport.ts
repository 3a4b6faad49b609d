/** A transport to the daemon of this machine, whose key is another one after each of its starts. */
import type { HttpRequest, HttpResponse, MessageChannel, Transport } from './transport.ts';
import { UpgradeRefusedError } from './transport.ts';

/** What a key is read by, and what is opened with it. */
export interface LocalKeyParts {
  readonly key: () => string | undefined;
  readonly open: (key: string | undefined) => Promise<Transport>;
}

const UNAUTHORIZED = 401;

/** Where a key is refused and there is another one by now, the request is sent again with that: nothing of it was done. */
export class LocalKeyTransport implements Transport {
  readonly #parts: LocalKeyParts;
  #key: string | undefined;
  #transport: Transport;

  private constructor(parts: LocalKeyParts, key: string | undefined, transport: Transport) {
    this.#parts = parts;
    this.#key = key;
    this.#transport = transport;
  }

  static async open(parts: LocalKeyParts): Promise<LocalKeyTransport> {
    const key = parts.key();
    return new LocalKeyTransport(parts, key, await parts.open(key));
  }

  async request(request: HttpRequest): Promise<HttpResponse> {
    const used = this.#key;
    const response = await this.#transport.request(request);
    if (response.status !== UNAUTHORIZED || !(await this.#renewed(used)) || isConsumed(request.body)) return response;
    response.discard();
    return await this.#transport.request(request);
  }

  async connect(path: string, protocol: string, signal?: AbortSignal): Promise<MessageChannel> {
    const used = this.#key;
    try {
      return await this.#transport.connect(path, protocol, signal);
    } catch (error) {
      const isRefused = error instanceof UpgradeRefusedError && error.response?.status === UNAUTHORIZED;
      if (!isRefused || !(await this.#renewed(used))) throw error;
      return await this.#transport.connect(path, protocol, signal);
    }
  }

  close(): void {
    this.#transport.close();
  }

  /** Whether there is another key than the one that was used. */
  async #renewed(used: string | undefined): Promise<boolean> {
    const key = this.#parts.key();
    if (key === undefined || key === used) return false;
    if (key !== this.#key) {
      const transport = await this.#parts.open(key);
      this.#transport.close();
      [this.#key, this.#transport] = [key, transport];
    }
    return true;
  }
}

/** A stream can't be sent a second time; its caller learns that the key was refused, and the next call has the new one. */
function isConsumed(body: HttpRequest['body']): boolean {
  return body !== undefined && typeof body !== 'string' && !(body instanceof Uint8Array);
}
