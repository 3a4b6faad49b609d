/** The sidecar's app over a host of sessions, as it listens. */
import { createSidecar, SessionRegistry } from '@boxkite/sidecar/app';
import { SessionHost } from './sessions.ts';

type App = ReturnType<typeof createSidecar>;

/** A host whose sessions an app serves to whoever shows the token of one. */
export class ServedSessions implements AsyncDisposable {
  readonly host: SessionHost;
  /** Empty at first: until a session is added, the app answers that it is not configured. */
  readonly registry: SessionRegistry;
  readonly app: App;
  /** Ends streams and calls that wait. */
  readonly closing: AbortController;
  readonly base: string;
  readonly #made: AsyncDisposable;

  private constructor(
    parts: Pick<ServedSessions, 'host' | 'registry' | 'app' | 'closing' | 'base'>,
    made: AsyncDisposable,
  ) {
    this.host = parts.host;
    this.registry = parts.registry;
    this.app = parts.app;
    this.closing = parts.closing;
    this.base = parts.base;
    this.#made = made;
  }

  /** `before` gets the app before it listens, which is when its routes are added. */
  static async start(before: (app: App) => void = () => undefined): Promise<ServedSessions> {
    await using made = new AsyncDisposableStack();
    const host = made.use(await SessionHost.start());
    const [registry, closing] = [new SessionRegistry(), new AbortController()];
    const app = createSidecar(registry, { closing: closing.signal });
    made.defer(async () => {
      closing.abort();
      await app.close();
    });
    before(app);
    const base = await app.listen({ port: 0, host: '127.0.0.1' });
    return new ServedSessions({ host, registry, app, closing, base }, made.move());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#made[Symbol.asyncDispose]();
  }
}
