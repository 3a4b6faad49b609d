/** One session behind the sidecar's app, as a client of the wire has it. */
import { randomBytes } from 'node:crypto';
import { createSidecar, type Session, SessionRegistry } from '@boxkite/sidecar/app';
import { nativeProgram } from '@boxkite/testing';

/** What an answer is. */
export interface SessionAnswer<T> {
  readonly status: number;
  readonly json: T;
}

/** Requests to a session over HTTP. */
export class SessionClient implements AsyncDisposable {
  readonly session: Session;
  readonly #app: ReturnType<typeof createSidecar>;
  readonly #closing: AbortController;
  readonly #token: string;
  readonly #base: string;

  private constructor(session: Session, served: Served) {
    this.session = session;
    this.#app = served.app;
    this.#closing = served.closing;
    this.#token = served.token;
    this.#base = served.base;
  }

  static async open(session: Session): Promise<SessionClient> {
    const token = randomBytes(32).toString('base64url');
    const registry = new SessionRegistry();
    registry.add(token, session);
    const closing = new AbortController();
    const app = createSidecar(registry, { closing: closing.signal, runner: nativeProgram('boxkite-runner') });
    return new SessionClient(session, { app, closing, token, base: await app.listen({ port: 0, host: '127.0.0.1' }) });
  }

  async call<T = Readonly<Record<string, unknown>>>(
    method: 'GET' | 'POST',
    url: string,
    body?: object,
  ): Promise<SessionAnswer<T>> {
    const { status, text } = await this.text(method, url, body);
    return { status, json: JSON.parse(text) as T };
  }

  /** As `call`, with what came as it came. */
  async text(
    method: 'GET' | 'POST',
    url: string,
    body?: object,
  ): Promise<{ readonly status: number; readonly type: string | null; readonly text: string }> {
    const answer = await fetch(this.#base + url, {
      method,
      headers: {
        'x-sidecar-auth-token': this.#token,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, type: answer.headers.get('content-type'), text: await answer.text() };
  }

  /** As `call`; throws unless it succeeds. */
  async post<T = Readonly<Record<string, unknown>>>(url: string, body?: object): Promise<T> {
    const { status, json } = await this.call<T>('POST', url, body);
    if (status !== 200) throw new Error(`POST ${url}: ${status} ${JSON.stringify(json)}`);
    return json;
  }

  /** Standard output of a line of a shell; throws where it fails. */
  async sh(command: string): Promise<string> {
    const { stdout, stderr, exit_code } = await this.post<{ stdout: string; stderr: string; exit_code: number }>(
      '/exec',
      {
        command,
      },
    );
    if (exit_code !== 0) throw new Error(`${command}: ${exit_code} ${stderr}`);
    return stdout;
  }

  /** The session stays. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await this.#app.close();
  }
}

interface Served {
  readonly app: ReturnType<typeof createSidecar>;
  readonly closing: AbortController;
  readonly token: string;
  readonly base: string;
}
