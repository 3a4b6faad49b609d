/** A whole daemon over a substrate in memory: real database, real HTTP over a Unix socket and TCP. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger } from '@boxkite/kit';
import type { ManagerLimits } from '@boxkite/manager';
import { hideCredentials } from '@boxkite/policy';
import type { ErrorBody, ExecRecord, SandboxCeilings } from '@boxkite/protocol';
import { v1 } from '@boxkite/protocol';
import { expect } from 'vitest';
import type { z } from 'zod';
import { FakeSubstrate } from '../../manager/test/fake-substrate.ts';
import { type Daemon, startDaemon } from '../src/index.ts';

/** Fields of answers, and of items of those that are lists, that tests look at; a wrong one makes its test fail. */
export interface AnswerBody {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly exec_id: string;
  readonly exit_code: number;
  readonly end: string;
  readonly stdout: string;
  readonly next_offset: number;
  readonly record: ExecRecord | null;
  readonly error: ErrorBody['error'];
  readonly detail: { readonly error: { readonly code: string; readonly message: string } };
}

/** An answer, read whole. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly bytes: Buffer;
  readonly text: string;
  readonly json: AnswerBody & readonly AnswerBody[];
}

export interface CallOptions {
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

export class TestDaemon {
  readonly substrate: FakeSubstrate;
  readonly directory: string;
  readonly socket: string;
  readonly logs: string[] = [];
  /** The operator's, at the next opening. */
  ceilings: SandboxCeilings = {};
  daemon: Daemon | undefined;
  /** The key of this machine's administrator. */
  key = '';

  constructor() {
    this.directory = mkdtempSync(join(tmpdir(), 'boxkite-server-'));
    this.socket = join(this.directory, 's');
    this.substrate = new FakeSubstrate();
  }

  static async start(limits?: Partial<ManagerLimits>): Promise<TestDaemon> {
    const test = new TestDaemon();
    await test.open(limits);
    return test;
  }

  async open(limits: Partial<ManagerLimits> = {}, instance = 'abc'): Promise<void> {
    rmSync(this.socket, { force: true });
    this.daemon = await startDaemon({
      substrate: this.substrate,
      instance,
      version: '0.0.0',
      runner: { mode: 'root', layers: { seccomp: true } },
      machine: { memory_mb: 3000, cpus: 2, ceilings: this.ceilings },
      dataDirectory: this.directory,
      runtimeDirectory: this.directory,
      listeners: [{ on: { path: this.socket } }, { on: { host: '127.0.0.1', port: 0 } }],
      limits: { perAccount: 50, total: 100, ...limits },
      patience: { headersMs: 1000, checkMs: 100 },
      logger: createLogger({ write: (line) => void this.logs.push(line) }, hideCredentials),
    });
    this.key = readFileSync(join(this.directory, 'key'), 'utf8').trim();
  }

  get port(): number {
    return Number(this.daemon?.addresses[1]?.split(':').at(-1));
  }

  async close(): Promise<void> {
    await this.daemon?.close('daemon_stopped');
    rmSync(this.directory, { recursive: true, force: true });
  }

  call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const request = this.begin(method, path, options, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('error', reject);
      response.on('end', () => resolve(answer(response, Buffer.concat(parts))));
    });
    request.on('error', reject);
    return promise;
  }

  /** Sends a request and hands over its answer as it comes. */
  begin(method: string, path: string, options: CallOptions, onAnswer: (response: IncomingMessage) => void) {
    const { key = this.key, body, headers = {}, signal } = options;
    const raw = body === undefined || body instanceof Uint8Array || typeof body === 'string';
    const payload = raw ? body : JSON.stringify(body);
    const request = httpRequest(
      {
        socketPath: this.socket,
        method,
        path,
        headers: {
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...(raw ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(signal === undefined ? {} : { signal }),
      },
      onAnswer,
    );
    request.end(payload);
    return request;
  }

  /** An answer that is one of the schema, and holds nothing that the schema does not name. */
  async ok<S extends z.ZodType>(
    schema: S,
    status: number,
    method: string,
    path: string,
    options?: CallOptions,
  ): Promise<z.output<S>> {
    const found = await this.call(method, path, options);
    expect(found.status, found.text).toBe(status);
    const parsed = schema.parse(found.json);
    expect(parsed).toEqual(found.json);
    return parsed;
  }

  async refused(status: number, code: string, method: string, path: string, options?: CallOptions): Promise<Answer> {
    const found = await this.call(method, path, options);
    expect([found.status, found.json?.error?.code], found.text).toEqual([status, code]);
    expectError(found);
    return found;
  }

  async sandbox(body: v1.CreateSandboxBody = {}): Promise<string> {
    const made = await this.call('POST', '/v1/sandboxes', { body });
    expect(made.status, made.text).toBe(201);
    return made.json.id;
  }

  async exec(id: string, body: v1.StartExecBody): Promise<string> {
    const started = await this.call('POST', `/v1/sandboxes/${id}/execs`, { body });
    expect(started.status, started.text).toBe(201);
    return started.json.exec_id;
  }
}

function answer(response: IncomingMessage, bytes: Buffer): Answer {
  const text = bytes.toString();
  const isJson = response.headers['content-type']?.startsWith('application/json') === true && text !== '';
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    bytes,
    text,
    json: bodyOf(isJson ? text : 'null'),
  };
}

/** A body of JSON. */
export function bodyOf(text: string): Answer['json'] {
  return JSON.parse(text) as Answer['json'];
}

/** The one shape of errors, without a stack, a path of this machine, or the text of a library. */
export function expectError(found: Answer): void {
  expect(found.headers['content-type']).toBe('application/json; charset=utf-8');
  const { error } = v1.errorBody.parse(found.json);
  expect(Object.keys(error).sort()).toEqual(['code', 'details', 'hint', 'message', 'retryable']);
  expect(found.text).not.toMatch(/node_modules|\/src\/|\.ts\b|\n\s+at |node:|SQLITE|Fastify|FST_|zod/i);
}

/** Waits until something holds. */
export async function until(what: () => boolean | Promise<boolean>, ms = 5000): Promise<void> {
  const end = Date.now() + ms;
  while (!(await what())) {
    if (Date.now() > end) throw new Error('it did not come to hold');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
