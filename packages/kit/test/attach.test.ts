/** An attachment whose client, or server, ends while its sandbox is still looked for. */
import { EventEmitter, once } from 'node:events';
import { attachRoutes, type SandboxContext } from '@boxkite/kit';
import { BoxkiteError, encodeAttachMessage, type SandboxPort } from '@boxkite/protocol';
import type { FastifyInstance } from 'fastify';
import { describe, expect, it } from 'vitest';

/** What an attachment uses of a socket. */
class FakeSocket extends EventEmitter {
  readonly OPEN = 1;
  readonly readyState = 1;
  readonly bufferedAmount = 0;
  readonly closes: number[] = [];
  readonly sent: Uint8Array[] = [];
  readonly send = (frame: Uint8Array): void => void this.sent.push(frame);
  readonly ping = (): void => undefined;
  close(status: number): void {
    this.closes.push(status);
  }
}

/** The part of a larger thing that is used here. */
function part<Whole extends object>(value: object): Whole {
  return value as Whole;
}

type Handler = (socket: FakeSocket, request: unknown) => Promise<void>;

/** An attachment to a command that writes nothing and never ends. */
function attach(closing: AbortSignal, taken: () => Promise<void> = () => Promise.resolve()) {
  const port = Promise.withResolvers<SandboxPort>();
  let handler: Handler | undefined;
  const app = {
    route: (options: { wsHandler: Handler }): void => {
      handler = options.wsHandler;
    },
  };
  const context = { params: { extend: () => undefined }, portOf: () => port.promise, closing };
  attachRoutes(part<FastifyInstance>(app), part<SandboxContext>(context));
  const socket = new FakeSocket();
  const ended = handler?.(socket, { params: { eid: 'e' }, query: {}, log: { error: () => undefined } });
  const written: Uint8Array[] = [];
  const execs = {
    write: (_id: string, data: Uint8Array) => {
      written.push(data);
      return taken();
    },
    closeStdin: async () => void written.push(Buffer.from(', closed')),
    // biome-ignore lint/correctness/useYield: a command that writes nothing
    async *output(_id: string, _from: unknown, signal: AbortSignal) {
      if (!signal.aborted) await once(signal, 'abort');
    },
  };
  return { socket, ended, written, missing: port.reject, found: () => port.resolve(part<SandboxPort>({ execs })) };
}

describe('an attachment whose client has left', () => {
  it('keeps no input back for a command that does not read', async () => {
    const { socket, ended, written, found } = attach(new AbortController().signal, () => new Promise(() => undefined));
    found();
    for (const text of ['one ', 'two ', 'three'])
      socket.emit('message', Buffer.from(encodeAttachMessage({ type: 'stdin', data: Buffer.from(text) })), true);
    socket.emit('message', Buffer.from(encodeAttachMessage({ type: 'close_stdin' })), true);
    await expect.poll(() => Buffer.concat(written).toString()).toBe('one ');
    socket.emit('close');
    await ended;
    await expect.poll(() => Buffer.concat(written).toString()).toBe('one two three, closed');
  });
});

describe('an attachment whose sandbox is looked for', () => {
  it('ends when its client leaves meanwhile', async () => {
    const { socket, ended, found } = attach(new AbortController().signal);
    socket.emit('close');
    found();
    await ended;
    expect(socket.closes).toHaveLength(1);
  });

  it('ends when the server has begun to close', async () => {
    const { socket, ended, found } = attach(AbortSignal.abort());
    found();
    await ended;
    expect(socket.closes).toEqual([1001]);
  });

  it('writes what it was sent meanwhile', async () => {
    const { socket, ended, written, found } = attach(new AbortController().signal);
    socket.emit('message', Buffer.from(encodeAttachMessage({ type: 'stdin', data: Buffer.from('early') })), true);
    found();
    await expect.poll(() => Buffer.concat(written).toString()).toBe('early');
    socket.emit('close');
    await ended;
  });

  it('is told why there is none, and ends', async () => {
    const { socket, ended, missing } = attach(new AbortController().signal);
    missing(new BoxkiteError('not_found', 'there is no such sandbox'));
    await ended;
    expect(Buffer.concat(socket.sent).toString()).toContain('there is no such sandbox');
    expect(socket.closes).toEqual([1000]);
  });
});
