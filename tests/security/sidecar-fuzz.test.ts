/** Requests that are well-formed and requests that are not, at every route of a sidecar: no crash, no hang, no leak, no 500. */
import { readdirSync } from 'node:fs';
import { Agent, createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createSidecar, SessionRegistry } from '@boxkite/sidecar/app';
import { lane, processesOf, sleep, slowness, startSidecar, type TestSidecar, within } from '@boxkite/testing';
import { describe, expect, it } from 'vitest';
import { Random } from './support/random.ts';
import { mutated, plain, type Wire } from './support/sidecar-mutations.ts';
import { generators, groundwork, type Known, type Sent } from './support/sidecar-requests.ts';

const REQUESTS = Math.ceil((lane === 'root' ? 20_000 : 4000) / slowness);
const PARALLEL = 12;
const HANG_MS = within(45_000);
/** Of descriptors and processes: what a burst of connections or envelopes may leave for a while. */
const SLACK = 24;
/** Refusals of what this machine, or this version, does not have. */
const REFUSALS = new Set(['unsupported', 'isolation_unavailable', 'no_space']);
/** Routes whose success is no answer of HTTP, or needs what these requests do not have. */
const NEVER_WELL = new Set(['GET /execs/:eid/attach', 'POST /execs/:eid/resize']);
/** What is refused before its handler sees it. */
const READING = new Set(['unsupported_media_type', 'method_not_allowed', 'headers_too_large', 'unauthorized']);

interface Counts {
  sent: number;
  /** Such as the schema takes. */
  meant: number;
  /** Of those, answered by the handler. */
  handled: number;
  readonly statuses: Map<number, number>;
}

interface Answer {
  readonly status: number;
  readonly body: Buffer;
  readonly isJson: boolean;
}

/** Every route of the app. */
async function routes(): Promise<readonly string[]> {
  const found: string[] = [];
  const app = createSidecar(new SessionRegistry(), { closing: new AbortController().signal });
  app.addHook('onRoute', ({ method, url }) => {
    for (const name of [method].flat()) found.push(`${name} ${url}`);
  });
  await app.ready();
  await app.close();
  return found;
}

/** Resolves with `null` where the client has left, as it was to. */
function send(sidecar: TestSidecar, agent: Agent, wire: Wire): Promise<Answer | null> {
  return new Promise((resolve, reject) => {
    const headers: Record<string, string> = { 'x-sidecar-auth-token': sidecar.token, ...wire.headers };
    for (const [name, value] of Object.entries(headers)) headers[name] = Buffer.from(value).toString('latin1');
    if (wire.body !== null) headers['content-length'] = String(wire.body.length);
    const request = httpRequest(
      { host: '127.0.0.1', port: sidecar.port, agent, method: wire.method, path: wire.path, headers },
      (response) => void collect(response).then(resolve, failed),
    );
    const timer = setTimeout(() => reject(new Error('no answer')), HANG_MS);
    let hasLeft = false;
    const failed = (error: Error): void => {
      clearTimeout(timer);
      // The sidecar closes a connection behind an answer whose body it did not read.
      if (hasLeft || ('code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE'))) resolve(null);
      else reject(error);
    };
    request.on('error', failed);
    request.on('close', () => clearTimeout(timer));
    if (wire.leavesAfter !== null) {
      setTimeout(() => {
        hasLeft = true;
        request.destroy();
        resolve(null);
      }, wire.leavesAfter);
    }
    request.end(wire.body ?? undefined);
  });
}

async function collect(response: IncomingMessage): Promise<Answer> {
  const pieces: Buffer[] = [];
  for await (const piece of response as AsyncIterable<Buffer>) pieces.push(piece);
  const isJson = response.headers['content-type']?.startsWith('application/json') === true;
  return { status: response.statusCode ?? 0, body: Buffer.concat(pieces), isJson };
}

interface Parsed {
  readonly error?: { readonly code: string; readonly details: { readonly problems?: readonly string[] } };
  readonly exec_id?: string;
  readonly process_id?: string;
}

class Fuzz {
  readonly counts = new Map<string, Counts>();
  readonly known: Known = { execs: [], processes: [] };
  readonly #sidecar: TestSidecar;
  readonly #agent: Agent;
  readonly #random: Random;
  readonly #wheel: readonly string[];

  constructor(sidecar: TestSidecar, agent: Agent, random: Random) {
    this.#sidecar = sidecar;
    this.#agent = agent;
    this.#random = random;
    this.#wheel = Object.entries(generators).flatMap(([name, { weight }]) =>
      Array.from({ length: weight }, () => name),
    );
  }

  /** `meant`: as whoever wrote its generator means it. */
  async one(
    name: string = this.#random.pick(this.#wheel),
    meant: boolean = this.#random.below(100) < 60,
  ): Promise<void> {
    const generator = generators[name];
    if (generator === undefined) throw new RangeError(name);
    const sent: Sent = { method: name.split(' ', 1)[0] ?? '', ...generator.make(this.#random, this.known) };
    const wire = meant ? plain(sent) : mutated(this.#random, sent);
    const counts = this.counts.get(name) ?? { sent: 0, meant: 0, handled: 0, statuses: new Map<number, number>() };
    this.counts.set(name, counts);
    counts.sent += 1;
    if (meant) counts.meant += 1;
    const answer = await this.#sendOne(wire);
    if (answer === null) return;
    counts.statuses.set(answer.status, (counts.statuses.get(answer.status) ?? 0) + 1);
    const parsed = this.#check(answer, wire);
    const error = answer.status >= 400 ? parsed?.error : undefined;
    const refused = error !== undefined && (READING.has(error.code) || error.details.problems !== undefined);
    if (!meant) return;
    // A generator that the schema refuses reaches no handler.
    expect(refused, `${describeWire(wire)}: ${answer.body.toString().slice(0, 500)}`).toBe(false);
    counts.handled += 1;
    this.#remember(parsed);
  }

  /** A route that found nothing to work on by chance is asked again where there is something: no result depends on luck. */
  async untilWell(name: string): Promise<void> {
    for (let tries = 0; tries < 200 && !this.isWell(name); tries += 1) {
      this.known.execs.length = 0;
      this.known.processes.length = 0;
      for (const { path, body } of groundwork) await this.#lay(path, Buffer.from(JSON.stringify(body)));
      await this.one(name);
    }
  }

  isWell(name: string): boolean {
    return [...(this.counts.get(name)?.statuses.keys() ?? [])].some((status) => status < 300);
  }

  async #lay(path: string, body: Buffer): Promise<void> {
    const sent = { method: 'POST', path, headers: { 'content-type': 'application/json' }, body, leavesAfter: null };
    const answer = await this.#sendOne(sent);
    if (answer !== null) this.#remember(this.#check(answer, sent));
  }

  async #sendOne(wire: Wire): Promise<Answer | null> {
    try {
      return await send(this.#sidecar, this.#agent, wire);
    } catch (error) {
      throw new Error(`${describeWire(wire)}: ${String(error)}\n${this.#sidecar.log.join('')}`, { cause: error });
    }
  }

  /** No answer says that it was a fault of ours, or says nothing. */
  #check({ status, body, isJson }: Answer, wire: Wire): Parsed | null {
    const text = `${status} to ${describeWire(wire)}: ${body.toString().slice(0, 500)}`;
    if (status < 400) return isJson && body.length < 100_000 ? (JSON.parse(body.toString()) as Parsed) : null;
    if (wire.method === 'HEAD') {
      expect(status, text).toBeLessThan(500);
      return null;
    }
    expect(isJson, text).toBe(true);
    const parsed = JSON.parse(body.toString()) as Parsed & { readonly detail?: unknown };
    expect(typeof parsed.error?.code, text).toBe('string');
    expect(parsed.detail, text).toBeDefined();
    if (status >= 500 && !REFUSALS.has(parsed.error?.code ?? ''))
      throw new Error(`${text}\n${this.#sidecar.log.join('')}`);
    return parsed;
  }

  #remember(parsed: Parsed | null): void {
    for (const [list, id] of [
      [this.known.execs, parsed?.exec_id],
      [this.known.processes, parsed?.process_id],
    ] as const) {
      if (typeof id !== 'string') continue;
      list.push(id);
      if (list.length > 20) list.shift();
    }
  }
}

function describeWire({ method, path, headers, body }: Wire): string {
  return `${method} ${path.slice(0, 300)} ${JSON.stringify(headers)} ${body?.subarray(0, 300).toString() ?? ''}`;
}

/** What the service holds when nothing is asked of it. */
async function held(
  sidecar: TestSidecar,
): Promise<{ readonly processes: number; readonly descriptors: Record<string, number> }> {
  const descriptors: Record<string, number> = {};
  for (const [name, pid] of [
    ['runner', sidecar.pid],
    ['supervise', sidecar.supervisePid()],
    ['node', sidecar.nodePid()],
  ] as const) {
    const count = descriptorsOf(pid);
    if (count !== null) descriptors[name] = count;
  }
  return { processes: processesOf(sidecar.pid, '/nowhere').length, descriptors };
}

/** `null` where a process shows nothing of itself to its own user, which is root's to see. */
function descriptorsOf(pid: number): number | null {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch (error) {
    if (lane !== 'root' && error instanceof Error && 'code' in error && error.code === 'EACCES') return null;
    throw error;
  }
}

/** Ends everything that runs in the sandbox, and begins a use whose files are stored. */
async function quiet(sidecar: TestSidecar, agent: Agent): Promise<void> {
  const body = Buffer.from('{"storage_prefix":"sessions/o/s"}');
  const wire = { headers: { 'content-type': 'application/json' }, body, leavesAfter: null };
  const answer = await send(sidecar, agent, { ...wire, method: 'POST', path: '/configure' });
  expect(answer?.status).toBe(200);
  agent.destroy();
  await sleep(500);
}

/** A backend of tool calls that knows every tool. */
async function answeringBackend(): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((request, response) => {
    request.resume();
    request.once('end', () => response.end('{"result":1}'));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

describe(`the sidecar's routes, ${lane}`, () => {
  it('have each a generator of requests', async () => {
    expect(Object.keys(generators).sort()).toEqual([...(await routes())].sort());
  });

  it(`take ${REQUESTS} requests, half of them as they should be`, { timeout: within(480_000) }, async () => {
    const seed = Number(process.env['BOXKITE_FUZZ_SEED'] ?? Date.now() % 2 ** 31);
    const random = new Random(seed);
    await using backend = await answeringBackend();
    const env = {
      SIDECAR_TLS_DISABLED: 'true',
      BACKEND_URL: backend.url,
      SANDBOX_SESSION_MAX_EXEC_COUNT: '0',
      SANDBOX_SESSION_MAX_EXEC_SECONDS: '0',
    };
    await using sidecar = await startSidecar({ env });
    const agent = new Agent({ keepAlive: true, maxSockets: PARALLEL });
    const fuzz = new Fuzz(sidecar, agent, random);
    const node = sidecar.nodePid();
    const run = async (count: number): Promise<void> => {
      let left = count;
      const worker = async (): Promise<void> => {
        while (left > 0) {
          left -= 1;
          await fuzz.one();
        }
      };
      await Promise.all(Array.from({ length: PARALLEL }, worker));
      await quiet(sidecar, agent);
    };
    await quiet(sidecar, agent);
    // Each route at least so often, whatever its weight, and once as it is meant.
    for (const name of Object.keys(generators)) {
      await fuzz.one(name, true);
      for (let count = 1; count < 6; count += 1) await fuzz.one(name);
    }
    await run(REQUESTS / 4);
    const before = await held(sidecar);
    await run((REQUESTS * 3) / 4);
    const message = `seed ${seed}`;
    expect(sidecar.nodePid(), `${message}\n${sidecar.log.join('').slice(-5000)}`).toBe(node);
    const after = await held(sidecar);
    expect(after.processes, message).toBeLessThanOrEqual(before.processes + SLACK);
    for (const [name, count] of Object.entries(after.descriptors)) {
      expect(count, `${name}, ${message}`).toBeLessThanOrEqual((before.descriptors[name] ?? 0) + SLACK);
    }
    if (lane === 'root') for (const name of fuzz.counts.keys()) if (!NEVER_WELL.has(name)) await fuzz.untilWell(name);
    let [sent, meant] = [0, 0];
    for (const [name, counts] of fuzz.counts) {
      expect(counts.handled, `${name} was never handled; ${message}`).toBeGreaterThan(0);
      // Behind its first looks at what it was asked, at least once; fewer requests may be unlucky.
      if (lane === 'root' && !NEVER_WELL.has(name))
        expect(fuzz.isWell(name), `${name} never did its work; ${message}`).toBe(true);
      sent += counts.sent;
      meant += counts.meant;
    }
    expect(fuzz.counts.size).toBe(Object.keys(generators).length);
    expect(meant / sent).toBeGreaterThan(0.5);
    if (process.env['BOXKITE_FUZZ_REPORT'] !== undefined) {
      for (const [name, { statuses, ...counts }] of fuzz.counts)
        console.log(name, counts, Object.fromEntries(statuses));
    }
    const answer = await sidecar.call('POST', '/exec', { body: { command: 'echo works' } });
    expect(await answer.json()).toMatchObject({ stdout: 'works\n' });
    const faults = sidecar.log
      .join('')
      .split('\n')
      .filter((line) => /"level":[56]0/.test(line));
    expect(faults.slice(0, 3), message).toEqual([]);
  });
});
