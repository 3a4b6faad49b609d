import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { BoxkiteError } from '@boxkite/protocol';
import { type RunnerAccess, RunnerClient } from '@boxkite/runner-client';
import { afterEach, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { record } from '../../protocol/test/values.ts';
import { InterpreterProcess } from '../src/interpreter/process.ts';
import { daemonSettings } from '../src/settings.ts';
import { SANDBOX } from './support/model-runner.ts';
import { Host } from './support/sessions.ts';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

afterEach(() => {
  vi.restoreAllMocks();
});

/** An interpreter that answers each call with this. */
function answering(run: () => Promise<unknown>): InterpreterProcess {
  const execution = { exec_id: '7', effective: null };
  const dropped = { messages: 0, bytes: 0 };
  const hello = (): Promise<unknown> => Promise.resolve({ version: '3.11.2', interrupts: 0 });
  const kill = (): Promise<void> => Promise.resolve();
  return made(InterpreterProcess.prototype, { execution, dropped, hello, kill, run, isOver: false, interrupts: 0 });
}

/** Of a class, with other members. */
function made<T extends object>(prototype: T, members: Readonly<Record<string, unknown>>): T {
  const own = Object.entries(members).map(([name, value]) => [name, { value }] as const);
  return Object.create(prototype, Object.fromEntries(own)) as T;
}

const REPLY = {
  reply: { result: 'a value', error: null, forms: null, displays: [], truncated: false },
  record: null,
  fault: null,
  stopped: null,
  output: { bytes: Buffer.alloc(0), truncated: false },
};

it('an answer that was given is kept by nobody', async () => {
  await using host = await Host.start({});
  vi.spyOn(InterpreterProcess, 'start').mockResolvedValue(answering(() => Promise.resolve(REPLY)));
  const { interpreter } = host.session.services;
  const answers: WeakRef<object>[] = [];
  for (let call = 0; call < 3; call += 1) {
    answers.push(new WeakRef(await interpreter.run({ code: '', timeoutSeconds: 1 })));
  }
  await turn();
  gc();
  expect(answers.filter((answer) => answer.deref() !== undefined)).toEqual([]);
});

it('calls are told that the process stops: the one that runs, those that wait, and later ones', async () => {
  await using host = await Host.start({});
  vi.spyOn(InterpreterProcess, 'start').mockResolvedValue(answering(() => new Promise(() => undefined)));
  const { interpreter } = host.session.services;
  const run = (): Promise<unknown> => interpreter.run({ code: '', timeoutSeconds: 1 }).catch((error: unknown) => error);
  const calls = [run(), run()];
  await turn();
  interpreter.close();
  for (const call of [...calls, run()]) expect(await call).toMatchObject({ code: 'state_unavailable' });
});

const blob = z.object({ parts: z.object({ interpreter: z.unknown() }) });

it('an interpreter is still known to the process after next where this one ends while it looks for it', async () => {
  await using host = await Host.start({});
  const interpreter = { exec_id: '7', started_at: '2026-01-02T03:04:05.000Z', interrupts: 3 };
  await host.session.close();
  await host.state.put(
    Buffer.from(
      JSON.stringify({
        version: 1,
        instance: '0123456789',
        secrets: { current: null, sets: {} },
        configured: null,
        parts: { interpreter },
      }),
    ),
  );
  const never = new Promise<never>(() => undefined);
  host.more = {
    runner: { call: () => never, ended: false, lost: never },
    settings: { ...daemonSettings, budget: { execs: 5, seconds: 0 } },
  };
  const session = await host.open();
  await session.services.budget.reserve();
  const kept = blob.parse(JSON.parse(Buffer.from(host.state.get() ?? []).toString()));
  expect(kept.parts.interpreter).toEqual(interpreter);
});

/** An interpreter whose input refuses what it is sent, and that ends when it is killed. */
async function refusing(error: Error): Promise<InterpreterProcess> {
  const killed = Promise.withResolvers<void>();
  const execution = {
    write: () => Promise.reject(error),
    requestKill: () => killed.resolve(),
    async *[Symbol.asyncIterator]() {
      await killed.promise;
      yield { type: 'ended', record };
    },
  };
  const client = made(RunnerClient.prototype, { exec: () => Promise.resolve(execution) });
  const runner: RunnerAccess = { call: (run) => run(client), ended: false, lost: new Promise(() => undefined) };
  const limits = { outputBytes: 1000, memoryMb: null, dataMb: null };
  return InterpreterProcess.start(runner, SANDBOX, limits);
}

it.each([
  new BoxkiteError('runner_lost', 'no connection for its input'),
  new BoxkiteError('capacity', 'too much waits'),
  new BoxkiteError('stdin_closed', 'it has closed its input'),
  Object.assign(new Error('too many open files'), { code: 'EMFILE' }),
])('a call whose code can not be sent does not wait for its time to be over: %s', async (error) => {
  const process = await refusing(error);
  const ending = await process.run('1', { timeoutMs: 600_000 });
  expect(ending).toMatchObject({ reply: null, stopped: null, record });
  expect(ending.fault).not.toBeNull();
});

it('a call of one that has ended is told its end alone', async () => {
  const process = await refusing(new BoxkiteError('exec_ended', 'it has ended'));
  const running = process.run('1', { timeoutMs: 600_000 });
  await turn();
  process.execution.requestKill();
  expect(await running).toMatchObject({ reply: null, fault: null, record });
});
