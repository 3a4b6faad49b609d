/** A transport that is made at the first request, since what it is made of is loaded then. */
import type { HttpRequest, HttpResponse, MessageChannel, Transport } from './transport.ts';

/** `Transport` that stands for another one. */
export class LazyTransport implements Transport {
  readonly #make: () => Promise<Transport>;
  #made: Promise<Transport> | null = null;
  #ready: Transport | null = null;

  constructor(make: () => Promise<Transport>) {
    this.#make = make;
  }

  request(request: HttpRequest): Promise<HttpResponse> {
    return this.#ready?.request(request) ?? this.#get().then((transport) => transport.request(request));
  }

  connect(path: string, protocol: string, signal?: AbortSignal): Promise<MessageChannel> {
    return this.#get().then((transport) => transport.connect(path, protocol, signal));
  }

  close(): void {
    this.#ready?.close();
  }

  /** A failed attempt is not kept. */
  #get(): Promise<Transport> {
    this.#made ??= this.#make().then(
      (transport) => {
        this.#ready = transport;
        return transport;
      },
      (error: unknown) => {
        this.#made = null;
        throw error;
      },
    );
    return this.#made;
  }
}
