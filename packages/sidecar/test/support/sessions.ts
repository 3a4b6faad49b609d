/** Sessions over a model of a runner, with real files. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ExecEvent, OutputStream } from '@boxkite/protocol';
import { effective } from '../../../protocol/test/values.ts';
import { Session, type SessionParts } from '../../src/session/session.ts';
import type { StateBlob } from '../../src/session/session-state.ts';
import { ModelRunner, SANDBOX, type Write } from './model-runner.ts';

/** A blob outlives every session of it. */
export function blobOf(): StateBlob {
  let kept: Uint8Array | null = null;
  return {
    get: () => kept,
    put: (blob) => {
      kept = blob;
      return Promise.resolve();
    },
  };
}

/** A model of a runner and a session on it. */
export class Host implements AsyncDisposable {
  readonly runner: ModelRunner;
  readonly base: string;
  readonly state = blobOf();
  session!: Session;
  /** What sessions are opened with beside what they need. */
  more: Partial<SessionParts> = {};
  /** Ends the connection of the last session. */
  cut: () => void = () => undefined;

  private constructor(runner: ModelRunner, base: string) {
    this.runner = runner;
    this.base = base;
  }

  static async start(plans: Readonly<Record<string, readonly Write[]>>, held: readonly string[] = []): Promise<Host> {
    const host = new Host(await ModelRunner.start(plans, held), await mkdtemp(join(tmpdir(), 'boxkite-session-')));
    await host.open();
    return host;
  }

  get directory(): string {
    return join(this.base, 'records');
  }

  /** Opens the session anew, as the next process does. */
  async open(): Promise<Session> {
    const { access, cut } = await this.runner.connect();
    this.cut = cut;
    this.session = await Session.open({
      id: 'sandbox',
      sandbox: SANDBOX,
      effective,
      runner: access,
      directory: this.directory,
      state: this.state,
      listing: this.runner.listing(),
      ...this.more,
    });
    return this.session;
  }

  async start(plan: string, more: object = {}): Promise<string> {
    return (await this.session.execs.start({ argv: ['sh', plan], ...more })).exec_id;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.session.close();
    await this.runner[Symbol.asyncDispose]();
    await rm(this.base, { recursive: true, force: true });
  }
}

/** What a reader got of one stream: bytes, and the gaps between them. */
export class Heard {
  readonly bytes: Buffer[] = [];
  readonly gaps: (readonly [from: number, to: number])[] = [];
  at: number;
  end: string | null = null;

  constructor(at = 0) {
    this.at = at;
  }

  /** Takes an event of `stream`, which has to go on where the last one ended. */
  take(event: ExecEvent, stream: OutputStream = 'stdout'): void {
    if (event.type === 'ended') {
      if (this.end !== null) throw new Error('ended twice');
      this.end = `${event.record.end} ${event.record.reason}`;
      return;
    }
    if (event.stream !== stream) return;
    if (this.end !== null) throw new Error('output after the end');
    const from = event.type === 'gap' ? event.from : event.offset;
    if (from !== this.at) throw new Error(`${from} instead of ${this.at}`);
    if (event.type === 'gap') {
      this.gaps.push([event.from, event.to]);
      this.at = event.to;
    } else {
      this.bytes.push(Buffer.from(event.data));
      this.at += event.data.length;
    }
  }

  get text(): string {
    return Buffer.concat(this.bytes).toString('latin1');
  }
}

/** All that can be had from an offset on. */
export async function hear(session: Session, execId: string, stdout = 0, follow = true): Promise<Heard> {
  const heard = new Heard(stdout);
  for await (const event of session.execs.output(execId, { stdout, only: 'stdout', follow })) heard.take(event);
  return heard;
}

/** Writes of standard output, each byte of which says where it is. */
export function numbered(total: number, piece = 65_536): Write[] {
  return Array.from({ length: Math.ceil(total / piece) }, (_, index) => {
    const data = Buffer.alloc(Math.min(piece, total - index * piece));
    for (let at = 0; at < data.length; at += 1) data[at] = byteAt(index * piece + at);
    return { stream: 'stdout', data };
  });
}

/** The byte of `numbered` at an offset. */
export function byteAt(offset: number): number {
  return (offset % 251) ^ ((offset >> 12) & 0x7f);
}
