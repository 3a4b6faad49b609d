/** A daemon for one test, with data and sockets of its own: started as an operator starts it, ended in every way. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { type DaemonPlaces, daemonPlaces } from '@boxkite/local/serve';
import { type HttpProvider, serverProvider } from 'boxkite';
import { within } from './patience.ts';
import { boxkiteCommand, makeDataDirectory, ownPlaces, spawnService, TestService } from './service.ts';

/** How a daemon is started. */
export interface TestDaemonOptions {
  /** From `dist/` instead of the sources. */
  readonly bundled?: boolean | undefined;
  /** An existing data directory; default: a new one, which is removed at the end. */
  readonly data?: string | undefined;
  /** Further words after `boxkite serve`. */
  readonly args?: readonly string[] | undefined;
}

/** An HTTP answer. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  /** The body as JSON; fails for any other. */
  json(): unknown;
}

/** How a request is sent. */
export interface CallOptions {
  readonly body?: unknown;
  /** `null` sends none. Default: the daemon's own. */
  readonly key?: string | null | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Another Unix socket. */
  readonly socket?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A started daemon. */
export class TestDaemon extends TestService<DaemonPlaces> {
  /** Path of the Unix socket of `/v1`. */
  get socket(): string {
    return this.places.socket;
  }

  get data(): string {
    return this.places.data;
  }

  /** What makes a client find it; for `BOXKITE_URL`. */
  get url(): string {
    return `unix://${this.socket}`;
  }

  /** An SDK's provider over it, which the caller closes; `socket` is another way to the same daemon. */
  provider({ socket = this.socket }: { readonly socket?: string } = {}): HttpProvider {
    return serverProvider({ url: `unix://${socket}`, apiKey: this.key() });
  }

  /** The key of the local administrator. */
  key(): string {
    return readFileSync(this.places.key, 'utf8').trim();
  }

  /** Sends a request to `/v1` or `/health` over the Unix socket. */
  call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const { body, key = this.key(), headers = {}, socket = this.socket, signal } = options;
    const raw = body instanceof Uint8Array;
    const bytes = body === undefined || raw ? body : Buffer.from(JSON.stringify(body));
    const all: Record<string, string> = {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(bytes === undefined ? {} : { 'content-type': raw ? 'application/octet-stream' : 'application/json' }),
      ...headers,
    };
    return new Promise((resolve, reject) => {
      const sent = request({ socketPath: socket, method, path, headers: all, signal, agent: false }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.once('error', reject);
        answer.once('end', () => {
          const whole = Buffer.concat(chunks);
          resolve({
            status: answer.statusCode ?? 0,
            headers: answer.headers,
            body: whole,
            json: () => JSON.parse(whole.toString('utf8')) as unknown,
          });
        });
      });
      sent.once('error', reject);
      sent.end(bytes);
    });
  }

  protected async answers(signal: AbortSignal): Promise<boolean> {
    return (await this.call('GET', '/health', { key: null, signal })).status === 200;
  }
}

/** The places of a daemon with this data directory, for the user that runs the tests. */
export function placesOf(data: string): DaemonPlaces {
  return daemonPlaces(ownPlaces(data));
}

/** Starts `boxkite serve` and returns at once. */
export function launchDaemon(options: TestDaemonOptions = {}): TestDaemon {
  const data = options.data ?? makeDataDirectory();
  const words = ['serve', '--data', data, ...(options.args ?? [])];
  const child = spawnService(words, options.bundled);
  return new TestDaemon(child, placesOf(data), options.data !== undefined);
}

/** Starts a daemon and waits until it serves. */
export async function startDaemon(options: TestDaemonOptions = {}): Promise<TestDaemon> {
  const daemon = launchDaemon(options);
  try {
    await daemon.serving();
    return daemon;
  } catch (error) {
    await daemon[Symbol.asyncDispose]();
    throw error;
  }
}

/** Outcome of a `boxkite` command. */
export interface CommandOutcome {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `boxkite` with these words to its end. */
export function boxkite(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CommandOutcome> {
  const [program, ...first] = boxkiteCommand();
  return new Promise((resolve) => {
    const options = { env: { ...process.env, ...env }, timeout: within(60_000) };
    const child = execFile(program, [...first, ...args], options, (_error, stdout, stderr) => {
      resolve({ status: child.exitCode, stdout, stderr });
    });
    child.stdin?.end();
  });
}
