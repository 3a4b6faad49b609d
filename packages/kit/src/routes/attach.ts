/** A command's terminal or pipes over a WebSocket: frames out, messages in. */
import type { AttachMessage, ExecEvent, ExecsPort, OutputStream } from '@boxkite/protocol';
import { BoxkiteError, decodeAttachMessage, encodeOutputFrame, type OutputFrame, v1 } from '@boxkite/protocol';
import type { FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import type { z } from 'zod';
import { errorAnswer } from '../http/error-answers.ts';
import { IdleTimer } from '../http/streams.ts';
import { type ExecParams, execParams, type SandboxRoutes } from './context.ts';
import { execsOf } from './exec-json.ts';
import { heartbeatMs } from './output.ts';

type Request = FastifyRequest<{
  Params: ExecParams;
  Querystring: z.output<typeof v1.attachQuery>;
}>;

/** Bytes that may wait in the socket before the next event is asked for. */
const MOST_BUFFERED = 1024 * 1024;
/** Bytes beyond what the client has acknowledged, once it has acknowledged anything. */
const WINDOW = 4 * 1024 * 1024;
/** Messages, and bytes of them, that wait for the command before the socket is not read any more. */
const MOST_WAITING = 256;
const MOST_WAITING_BYTES = 1024 * 1024;
const PING_MS = 30_000;
const NORMAL = 1000;
const GOING_AWAY = 1001;

/** Attaching to a command. */
export const attachRoutes: SandboxRoutes = (app, context) => {
  app.route<{ Params: ExecParams; Querystring: z.output<typeof v1.attachQuery> }>({
    method: 'GET',
    url: '/execs/:eid/attach',
    schema: { summary: 'Attach by a WebSocket', params: execParams(context), querystring: v1.attachQuery },
    // Refused before the upgrade, by a status that says why.
    preHandler: async (request) => {
      await execsOf(await context.portOf(request)).get(request.params.eid);
    },
    handler: async (_request, reply) => {
      reply.header('upgrade', 'websocket').header('connection', 'upgrade');
      throw new BoxkiteError('upgrade_required', 'this route is one of a WebSocket');
    },
    wsHandler: async (socket: WebSocket, request: Request) => {
      const attachment = new Attachment(socket, request, context.closing);
      await attachment.run(context.portOf(request).then(execsOf));
    },
  });
};

class Attachment {
  readonly #socket: WebSocket;
  readonly #request: Request;
  readonly #left = new AbortController();
  readonly #closing: AbortSignal;
  #acknowledged: { stdout: number; stderr: number } | null = null;
  readonly #sent = { stdout: 0, stderr: 0 };
  #wake: (() => void) | null = null;
  /** Its input in order: settles when the next piece may be handed on. */
  #input: Promise<void> = Promise.resolve();
  #handOn: (() => void) | null = null;
  #waiting = 0;
  #waitingBytes = 0;

  constructor(socket: WebSocket, request: Request, closing: AbortSignal) {
    this.#socket = socket;
    this.#request = request;
    this.#closing = closing;
  }

  /** Listens before the port is there: what the socket tells meanwhile is told once. */
  async run(port: Promise<ExecsPort>): Promise<void> {
    const socket = this.#socket;
    const stop = (): void => {
      this.#left.abort();
      this.#wake?.();
      this.#handOn?.();
    };
    socket.on('close', stop);
    socket.on('error', stop);
    socket.on('message', (data: Buffer, isBinary: boolean) => this.#onMessage(port, data, isBinary));
    if (this.#closing.aborted) stop();
    this.#closing.addEventListener('abort', stop, { once: true });
    const heartbeat = new IdleTimer(heartbeatMs, () => {
      if (socket.bufferedAmount === 0) socket.send(encodeOutputFrame({ type: 'heartbeat' }));
    });
    const ping = this.#watchPeer();
    try {
      await this.#send(await port, heartbeat);
      socket.close(this.#closing.aborted ? GOING_AWAY : NORMAL);
    } catch (error) {
      if (!this.#left.signal.aborted || this.#closing.aborted) this.#refuse(error);
      socket.close(this.#closing.aborted ? GOING_AWAY : NORMAL);
    } finally {
      heartbeat.stop();
      ping.stop();
      this.#closing.removeEventListener('abort', stop);
    }
  }

  async #send(execs: ExecsPort, heartbeat: IdleTimer): Promise<void> {
    const { eid } = this.#request.params;
    const { stdout_offset: stdout = 0, stderr_offset: stderr = 0 } = this.#request.query;
    Object.assign(this.#sent, { stdout, stderr });
    for await (const event of execs.output(eid, { stdout, stderr }, this.#left.signal)) {
      heartbeat.touch();
      await this.#sendFrame(event);
      if (event.type !== 'ended') await this.#room(event);
      if (this.#left.signal.aborted) return;
    }
  }

  /** Resolves when the client may be sent more. */
  async #room(event: Exclude<ExecEvent, { type: 'ended' }>): Promise<void> {
    this.#sent[event.stream] = event.type === 'gap' ? event.to : event.offset + event.data.length;
    while (!this.#left.signal.aborted && this.#isBeyond('stdout', 'stderr')) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #isBeyond(...streams: readonly OutputStream[]): boolean {
    const acknowledged = this.#acknowledged;
    return acknowledged !== null && streams.some((stream) => this.#sent[stream] - acknowledged[stream] > WINDOW);
  }

  #sendFrame(frame: OutputFrame): Promise<void> | undefined {
    const socket = this.#socket;
    if (socket.readyState !== socket.OPEN) return undefined;
    const bytes = encodeOutputFrame(frame);
    if (socket.bufferedAmount < MOST_BUFFERED) {
      socket.send(bytes);
      return undefined;
    }
    return new Promise((resolve) => {
      socket.send(bytes, () => resolve());
    });
  }

  #onMessage(port: Promise<ExecsPort>, data: Buffer, isBinary: boolean): void {
    let message: AttachMessage;
    try {
      if (!isBinary)
        throw new BoxkiteError('invalid_request', 'messages are binary', { details: { field: 'message' } });
      message = decodeAttachMessage(data);
    } catch (error) {
      return this.#refuse(error);
    }
    if (message.type === 'acknowledge') {
      this.#acknowledged = { stdout: message.stdout, stderr: message.stderr };
      this.#wake?.();
      return;
    }
    this.#wait(1, data.length);
    const settled = (): void => this.#wait(-1, -data.length);
    if (message.type === 'stdin' || message.type === 'close_stdin') {
      this.#input = this.#input.then(() => this.#feed(this.#carryOut(port, message).finally(settled)));
    } else {
      // Never behind input that the command does not read.
      void this.#carryOut(port, message).finally(settled);
    }
  }

  /** Waits for one piece of input while there is a client; what it has left is the command's, within its bound. */
  async #feed(piece: Promise<void>): Promise<void> {
    if (this.#left.signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#handOn = resolve;
      void piece.finally(resolve);
    });
  }

  #wait(messages: number, bytes: number): void {
    this.#waiting += messages;
    this.#waitingBytes += bytes;
    if (this.#waiting >= MOST_WAITING || this.#waitingBytes >= MOST_WAITING_BYTES) this.#socket.pause();
    else if (this.#socket.isPaused) this.#socket.resume();
  }

  async #carryOut(port: Promise<ExecsPort>, message: Exclude<AttachMessage, { type: 'acknowledge' }>): Promise<void> {
    const { eid } = this.#request.params;
    try {
      const execs = await port;
      switch (message.type) {
        case 'stdin':
          return await execs.write(eid, message.data);
        case 'close_stdin':
          return await execs.closeStdin(eid);
        case 'resize':
          return await execs.resize(eid, message.columns, message.rows);
        case 'signal':
          return await execs.signal(eid, message.signal);
        case 'kill':
          return await execs.kill(eid);
        default:
          return message satisfies never;
      }
    } catch (error) {
      this.#refuse(error);
    }
  }

  #refuse(error: unknown): void {
    // Whoever sends what is refused, and reads no refusal, has left in all but name.
    if (this.#socket.bufferedAmount > MOST_BUFFERED) return this.#socket.terminate();
    const { body } = errorAnswer(error, (unknown) => this.#request.log.error(unknown));
    void this.#sendFrame({ type: 'error', error: body });
  }

  /** Ends a connection whose other end has gone without a word. */
  #watchPeer(): IdleTimer {
    let alive = true;
    this.#socket.on('pong', () => {
      alive = true;
    });
    return new IdleTimer(PING_MS, () => {
      if (!alive) return this.#socket.terminate();
      // Pongs wait behind input that is not read.
      alive = this.#waiting > 0;
      this.#socket.ping();
    });
  }
}
