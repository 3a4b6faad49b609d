/** The published library over a real sidecar, with all that passes between them. */
import { startSidecar, type TestSidecar } from '@boxkite/testing';
import { Library } from './published.ts';
import { RecordingProxy } from './recording-proxy.ts';

/** A sidecar, a proxy in front of it, and the library as the proxy's client. */
export class ObservedLibrary implements AsyncDisposable {
  readonly sidecar: TestSidecar;
  readonly proxy: RecordingProxy;
  readonly library: Library;

  private constructor(sidecar: TestSidecar, proxy: RecordingProxy) {
    this.sidecar = sidecar;
    this.proxy = proxy;
    this.library = new Library({ url: proxy.url, token: sidecar.token });
  }

  static async start(): Promise<ObservedLibrary> {
    const sidecar = await startSidecar();
    return new ObservedLibrary(sidecar, await RecordingProxy.start(sidecar.url));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.library.end();
    await this.proxy[Symbol.asyncDispose]();
    await this.sidecar[Symbol.asyncDispose]();
  }
}
