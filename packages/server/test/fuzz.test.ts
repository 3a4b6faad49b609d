/**
 * Requests of every kind of nonsense: never a 500, never a hang, never a stack, and the daemon is well afterwards.
 * BOXKITE_FUZZ_REQUESTS=20000 runs the whole.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bodyOf, expectError, TestDaemon } from './harness.ts';

const requests = Number(process.env['BOXKITE_FUZZ_REQUESTS'] ?? 3000);
const limitMs = Number(process.env['BOXKITE_FUZZ_MS'] ?? 20_000);

let daemon: TestDaemon;
let id: string;
let eid: string;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  id = await daemon.sandbox();
  eid = await daemon.exec(id, { command: 'hang' });
});
afterAll(() => daemon.close());

const part = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('{id}', '{eid}') },
  fc.constantFrom('.', '..', '%00', '%2f', '__proto__', '0', '-1', 'null', '%F0%9F%98%80', 'a'.repeat(300)),
  fc.webSegment(),
);
const tail = fc.constantFrom(
  '',
  '/exec',
  '/execs',
  '/execs/{eid}',
  '/execs/{eid}/output',
  '/execs/{eid}/input',
  '/execs/{eid}/signal',
  '/execs/{eid}/resize',
  '/execs/{eid}/close-stdin',
  '/execs/{eid}/attach',
  '/files',
  '/files/content',
  '/files/ls',
  '/files/move',
  '/files/mkdir',
  '/files/stat',
  '/files/archive',
  '/processes',
  '/processes/{eid}/output',
  '/processes/{eid}/stop',
  '/extend',
  '/stop',
  '/start',
  '/nothing',
);
const path = fc.oneof(
  { weight: 8, arbitrary: fc.tuple(part, tail).map(([one, rest]) => `/v1/sandboxes/${one}${rest}`) },
  {
    weight: 2,
    arbitrary: fc.constantFrom('/v1/sandboxes', '/v1/api-keys', '/v1/status', '/health', '/', '//', '/v1/%'),
  },
  { weight: 1, arbitrary: fc.webPath() },
);
const names = fc.constantFrom(
  'command',
  'argv',
  'timeout',
  'cwd',
  'env',
  'secret_env',
  'stdin',
  'stdin_base64',
  'limits',
  'overflow',
  'tty',
  'signal',
  'all',
  'columns',
  'rows',
  'path',
  'content',
  'from',
  'to',
  'limit',
  'cursor',
  'label',
  'count',
  'size',
  'lifetime_minutes',
  'minutes',
  'name',
  'account',
  'max_runtime_seconds',
  'data',
  'stream',
  'offset',
  'follow',
  'stdout_offset',
  'mode',
  'since_offset',
  'active_only',
  'usage',
  '__proto__',
  'constructor',
);
const odd = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom(
    'true',
    'cat',
    'nope',
    'stdout',
    '/workspace/a',
    '',
    '\0',
    '\ud800',
    1e308,
    -1,
    0,
    2 ** 53,
    '1e3',
    'NaN',
    null,
  ),
  fc.string({ unit: 'binary', maxLength: 40 }),
);
const object = fc.array(fc.tuple(names, odd), { maxLength: 5 }).map((entries) => Object.fromEntries(entries));
const body = fc.oneof(
  { weight: 4, arbitrary: object.map((value) => JSON.stringify(value)) },
  { weight: 1, arbitrary: fc.json() },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 100 }) },
  { weight: 1, arbitrary: fc.constant(undefined) },
);
const query = fc.oneof(
  fc.constant(''),
  fc.array(fc.tuple(names, odd), { maxLength: 3 }).map((entries) => {
    const text = entries.map(
      ([name, value]) =>
        `${name}=${encodeURIComponent((typeof value === 'string' ? value : JSON.stringify(value)).toWellFormed())}`,
    );
    return `?${text.join('&')}`;
  }),
  fc.webQueryParameters().map((text) => `?${text}`),
);
const headers = fc.record(
  {
    'content-type': fc.constantFrom(
      'application/json',
      'text/plain',
      'application/octet-stream',
      'a/b; c=d',
      ';',
      'application/json; charset=utf-16',
    ),
    accept: fc.constantFrom('text/event-stream', 'application/vnd.boxkite.output', '*/*', 'x'),
    range: fc.constantFrom('bytes=0-1', 'bytes=-', 'bytes=999-1', 'x'),
    'last-event-id': fc.constantFrom('1-2', 'x', '9999999999999999-0'),
    'idempotency-key': fc.constantFrom('a', 'b', 'x'.repeat(300)),
    upgrade: fc.constantFrom('websocket', 'x'),
    connection: fc.constantFrom('upgrade', 'close'),
    'sec-websocket-key': fc.constant('dGhlIHNhbXBsZSBub25jZQ=='),
    'sec-websocket-version': fc.constantFrom('13', '1'),
  },
  { requiredKeys: [] },
);
const method = fc.constantFrom('GET', 'POST', 'POST', 'POST', 'PUT', 'DELETE', 'HEAD', 'PATCH', 'OPTIONS');
const request = fc.record({ method, path, query, body, headers });

it(`${requests} requests of nonsense are answered`, { timeout: 300_000 }, async () => {
  const statuses = new Map<number, number>();
  await fc.assert(
    fc.asyncProperty(request, async (one) => {
      const target = `${one.path.replaceAll('{id}', id).replaceAll('{eid}', eid)}${one.query}`;
      const deadline = AbortSignal.timeout(10_000);
      const answer = await send(one.method, target, one.body, one.headers, deadline);
      if (answer === null) return;
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      const ours = answer.status >= 200 && answer.status < 500;
      // Two refusals that are no fault: what this sandbox can not do, and what the daemon does not have.
      expect(ours || [501, 503].includes(answer.status), `${one.method} ${target}: ${answer.text}`).toBe(true);
      if (answer.status >= 400 && one.method !== 'HEAD') expectError(answer);
    }),
    { numRuns: requests, interruptAfterTimeLimit: limitMs, markInterruptAsFailure: false },
  );
  expect(statuses.get(500)).toBeUndefined();
  expect([...statuses.keys()]).toEqual(expect.arrayContaining([200, 404, 422]));
  expect((await daemon.call('GET', '/health')).status).toBe(200);
  const again = await daemon.sandbox();
  expect(
    (await daemon.call('POST', `/v1/sandboxes/${again}/exec`, { body: { command: 'echo well' } })).json.stdout,
  ).toBe('well\n');
  const errors = daemon.logs.filter((line) => /^\{"level":[5-9]\d/.test(line));
  expect(errors).toEqual([]);
});

/** `null` where the answer is a stream that lasts, or an upgrade. */
async function send(
  verb: string,
  target: string,
  payload: string | undefined,
  sent: Record<string, string | undefined>,
  deadline: AbortSignal,
) {
  const { promise, resolve, reject } = Promise.withResolvers<Awaited<ReturnType<TestDaemon['call']>> | null>();
  const call = daemon.begin(
    verb,
    target,
    {
      headers: JSON.parse(JSON.stringify(sent)) as Record<string, string>,
      ...(payload === undefined || verb === 'GET' ? {} : { body: payload }),
    },
    (response) => {
      const parts: Buffer[] = [];
      const lasting = setTimeout(() => {
        call.destroy();
        resolve(null);
      }, 40);
      response.on('data', (data: Buffer) => parts.push(data));
      response.on('error', () => resolve(null));
      response.on('end', () => {
        clearTimeout(lasting);
        const bytes = Buffer.concat(parts);
        const text = bytes.toString();
        const isJson = response.headers['content-type']?.startsWith('application/json') === true && text !== '';
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          bytes,
          text,
          json: bodyOf(isJson ? text : 'null'),
        });
      });
    },
  );
  call.on('upgrade', (_response, socket) => {
    socket.destroy();
    resolve(null);
  });
  call.on('error', (error) => (deadline.aborted ? reject(error) : resolve(null)));
  deadline.addEventListener('abort', () => {
    call.destroy();
    reject(new Error(`no answer in time: ${verb} ${target}`));
  });
  return promise;
}
