/** What a hostile or broken client makes of a request. */
import type { Random } from './random.ts';
import type { JsonBody, Sent } from './sidecar-requests.ts';

/** A request as it goes over the wire. */
export interface Wire {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: Buffer | null;
  /** The client leaves after so many ms. */
  leavesAfter: number | null;
}

const WRONG: readonly unknown[] = [
  null,
  true,
  -1,
  1.5,
  1e308,
  2 ** 53,
  '',
  'x',
  '\0',
  'x'.repeat(100_000),
  [],
  [[]],
  {},
  { a: 1 },
  [null],
  '\ud800',
  ['x'],
  Array.from({ length: 2000 }, () => 0),
  { toString: 1, __proto__: null, constructor: {} },
];

/** As its author means it. */
export function plain({ method, path, body }: Sent): Wire {
  const headers: Record<string, string> = {};
  if (Buffer.isBuffer(body)) headers['content-type'] = 'application/octet-stream';
  else if (body !== null) headers['content-type'] = 'application/json';
  const bytes = body === null || Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
  return { method, path, headers, body: bytes, leavesAfter: null };
}

/** As somebody else sends it. */
export function mutated(random: Random, sent: Sent): Wire {
  const wire = plain(sent);
  switch (random.below(9)) {
    case 0:
      return { ...wire, body: random.bytes(random.below(200)) };
    case 1:
      return { ...wire, body: cut(random, wire.body) };
    case 2:
      return {
        ...wire,
        headers: {
          'content-type': random.pick(['text/plain', 'application/xml', 'x', 'application/json; charset=utf-16']),
        },
      };
    case 3:
      return { ...wire, path: query(random, wire.path) };
    case 4:
      return { ...wire, headers: { ...wire.headers, 'x-sidecar-auth-token': random.pick(['', 'wrong', '\u00fc']) } };
    case 5:
      return { ...wire, leavesAfter: random.below(10) };
    case 6:
      return { ...wire, body: Buffer.from('['.repeat(random.pick([10, 70_000]))) };
    default:
      // What changes there may make it wait as long as it may: a minute.
      if (sent.path === '/watch') wire.leavesAfter = 200;
      return { ...wire, body: Buffer.from(JSON.stringify(wrongField(random, sent.body))) };
  }
}

function cut(random: Random, body: Buffer | null): Buffer {
  return body === null ? Buffer.from('{') : body.subarray(0, random.below(body.length + 1));
}

function query(random: Random, path: string): string {
  const odd = random.pick([
    'limit=x',
    'offset=-1',
    'path=',
    'path=a&path=b',
    '%ff=%zz',
    'since_offset=1e9',
    'since_offset=x',
    'follow=maybe',
    'key[]=1',
    'x'.repeat(9000),
  ]);
  return path.includes('?') ? `${path.split('?', 1)[0]}?${odd}` : `${path}?${odd}`;
}

function wrongField(random: Random, body: Sent['body']): unknown {
  if (body === null || Buffer.isBuffer(body)) return random.pick(WRONG);
  const names = Object.keys(body);
  const changed: JsonBody = { ...body };
  const name = names.length === 0 ? 'x' : random.pick(names);
  if (random.oneIn(4)) delete changed[name];
  else changed[name] = random.pick(WRONG);
  return random.oneIn(10) ? [changed] : changed;
}
