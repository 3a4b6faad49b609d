/** The examples of docs/reference/sidecar are sent to the sidecar's app over a real runner, each page to a new sandbox. */
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createSidecar, SessionRegistry } from '@boxkite/sidecar/app';
import { FsObjectStore } from '@boxkite/storage';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  comparable,
  comparableText,
  type HttpExample,
  httpExamples,
  learnIds,
  withIds,
} from './support/http-examples.ts';
import { SessionHost } from './support/sessions.ts';

const folder = new URL('../../docs/reference/sidecar/', import.meta.url);
const pages = readdirSync(folder).filter((name) => name.endsWith('.md'));

let host: SessionHost;
beforeAll(async () => {
  host = await SessionHost.start();
});
afterAll(() => host[Symbol.asyncDispose]());

async function answerOf(base: string, token: string, example: HttpExample): Promise<Response> {
  const { method, path, headers, body } = example;
  const sent: Record<string, string> = { 'x-sidecar-auth-token': token, ...headers };
  if (body !== '' && sent['content-type'] === undefined) sent['content-type'] = 'application/json';
  // What a reader is to see: a request without its token.
  if (sent['x-sidecar-auth-token'] === '') delete sent['x-sidecar-auth-token'];
  return fetch(base + path, { method, headers: sent, ...(body === '' ? {} : { body }) });
}

function show(answer: Response, body: string): string {
  return `HTTP/1.1 ${answer.status} ${answer.statusText}\n\n${body}`;
}

async function check(base: string, token: string, shown: HttpExample, ids: Map<string, string>): Promise<void> {
  const example = withIds(shown, ids);
  const answer = await answerOf(base, token, example);
  const body = await answer.text();
  const { answer: expected, varies, line, method, path } = example;
  const what = `line ${line}: ${method} ${path} was answered\n${show(answer, body)}`;
  expect(answer.status, what).toBe(expected.status);
  for (const [name, value] of Object.entries(expected.headers)) expect(answer.headers.get(name), what).toBe(value);
  if (answer.headers.get('content-type')?.startsWith('application/json') === true) {
    const told: unknown = JSON.parse(expected.body);
    const real: unknown = JSON.parse(body);
    expect(comparable(real, varies), what).toEqual(comparable(told, varies));
    learnIds(told, real, varies, ids);
  } else expect(comparableText(body, varies), what).toBe(comparableText(expected.body, varies));
}

/** Pages that show files in a store have one. */
const STORED: ReadonlySet<string> = new Set(['session.md', 'files.md']);

describe.each(pages)('%s', (page) => {
  const examples = httpExamples(readFileSync(new URL(page, folder), 'utf8'));
  const closing = new AbortController();
  const token = randomBytes(32).toString('base64url');
  /** Ids of the page, and what they are in this run. */
  const ids = new Map<string, string>();
  let app: FastifyInstance;
  let base: string;

  beforeAll(async () => {
    const registry = new SessionRegistry();
    host.objects = STORED.has(page) ? await FsObjectStore.open(join(host.directory, page)) : undefined;
    const session = await host.open(page);
    registry.add(token, session);
    app = createSidecar(registry, { closing: closing.signal, only: session });
    base = await app.listen({ port: 0, host: '127.0.0.1' });
  });
  afterAll(async () => {
    closing.abort();
    await app.close();
  });

  it('has examples', () => {
    expect(examples.length).toBeGreaterThan(0);
  });

  // One after another: a later one may need what an earlier one has made.
  it.each(examples.map((example) => [`line ${example.line}: ${example.method} ${example.path}`, example] as const))(
    '%s',
    async (_name, example) => check(base, token, example, ids),
  );
});
