/** A runner that keeps its spool as the protocol says, behind a real socket; what its commands write is given by the test. */
import type { OutputStream } from '@boxkite/protocol';
import type { ReadSizes, RunnerAccess, RunnerClient, RunnerListing } from '@boxkite/runner-client';
import { type FakePeer, FakeRunner, type Frame, obliging } from '../../../runner-client/test/support/fake-runner.ts';
import { outputFrame, sampleEffective } from '../../../runner-client/test/support/layouts.ts';

/** One write of a command. */
export interface Write {
  readonly stream: OutputStream;
  readonly data: Buffer;
}

interface ModelExec {
  readonly id: bigint;
  readonly writes: readonly Write[];
  /** Whether it waits with its end until `finish`. */
  held: boolean;
  next: number;
  readonly block: boolean;
  /** Bytes from `base` on. */
  spool: [Buffer, Buffer];
  base: [number, number];
  produced: [number, number];
  committed: [number, number];
  sent: [number, number];
  consumer: FakePeer | null;
  killed: boolean;
  ended: boolean;
  endSent: boolean;
}

const SPOOL = 1024 * 1024;
const STREAMS = ['stdout', 'stderr'] as const;
export const SANDBOX = 7n;

/** Give each exec its writes by the word behind `argv[0]`. */
export class ModelRunner implements AsyncDisposable {
  readonly execs = new Map<bigint, ModelExec>();
  readonly killed: bigint[] = [];
  /** Largest number of bytes that were sent and not committed. */
  mostUncommitted = 0;
  /** What its clients read into. */
  readSizes: ReadSizes = { block: 256 * 1024, leastRead: 64 * 1024, leastHeld: 32 * 1024 };
  /** Bytes of one event. */
  eventBytes = 64 * 1024;
  /** Commands write no more than so much of a stream by now. */
  pauseAt = Infinity;
  readonly #plans: Readonly<Record<string, readonly Write[]>>;
  readonly #held: ReadonlySet<string>;
  #fake: FakeRunner | null = null;
  #count = 0n;

  private constructor(plans: Readonly<Record<string, readonly Write[]>>, held: readonly string[]) {
    this.#plans = plans;
    this.#held = new Set(held);
  }

  /** `held` names plans whose command ends only when `finish` says so. */
  static async start(
    plans: Readonly<Record<string, readonly Write[]>>,
    held: readonly string[] = [],
  ): Promise<ModelRunner> {
    const model = new ModelRunner(plans, held);
    const others = obliging();
    model.#fake = await FakeRunner.start((peer, frame) => model.#frame(peer, frame, others));
    return model;
  }

  /** A connection of its own, as one process has it. `cut` ends it as a kill does. */
  async connect(): Promise<{ readonly access: RunnerAccess; readonly cut: () => void }> {
    const fake = this.#fake as FakeRunner;
    const client: RunnerClient = await fake.client(this.readSizes);
    await client.probe();
    const peer = fake.peers.at(-1) as FakePeer;
    const access: RunnerAccess = { call: (run) => run(client), ended: false, lost: client.lost };
    peer.socket.on('close', () => this.#left(peer));
    return {
      access,
      cut: () => {
        this.#left(peer);
        peer.socket.destroy();
      },
    };
  }

  listing(): RunnerListing {
    const execs = [...this.execs.values()].map((exec) => ({
      exec_id: exec.id.toString(),
      sandbox: SANDBOX,
      state: exec.ended ? ('ended' as const) : ('running' as const),
      attached: exec.consumer !== null,
      stdout: { committed: exec.committed[0], produced: exec.produced[0] },
      stderr: { committed: exec.committed[1], produced: exec.produced[1] },
    }));
    return { sandboxes: [], execs, workspaces: [] };
  }

  /** After a change of `pauseAt`. */
  goOn(): void {
    for (const exec of this.execs.values()) this.#pump(exec);
  }

  finish(exec: bigint): void {
    const found = this.execs.get(exec);
    if (found === undefined) return;
    found.held = false;
    this.#pump(found);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#fake?.[Symbol.asyncDispose]();
  }

  #frame(peer: FakePeer, frame: Frame, others: (peer: FakePeer, frame: Frame) => void): void {
    const { name, request, fields } = frame;
    if (name === 'exec') {
      this.#count += 1n;
      const plan = Buffer.from(fields['argument_1_value'] ?? '', 'hex').toString();
      const exec: ModelExec = {
        id: this.#count,
        writes: this.#plans[plan] ?? [],
        held: this.#held.has(plan),
        next: 0,
        block: fields['overflow'] === '1',
        spool: [Buffer.alloc(0), Buffer.alloc(0)],
        base: [0, 0],
        produced: [0, 0],
        committed: [0, 0],
        sent: [0, 0],
        consumer: peer,
        killed: false,
        ended: false,
        endSent: false,
      };
      this.execs.set(exec.id, exec);
      peer.started(request, exec.id);
      this.#pump(exec);
    } else if (name === 'attach' && fields['what'] === '0') {
      this.#attach(peer, request, BigInt(fields['exec'] ?? '0'));
    } else if (name === 'commit') {
      this.#commit(BigInt(fields['exec'] ?? '0'), fields);
    } else if (name === 'signal') {
      peer.send('done', request);
      const exec = this.execs.get(BigInt(fields['exec'] ?? '0'));
      if (exec === undefined || fields['target'] !== '1') return;
      this.killed.push(exec.id);
      exec.killed = true;
      this.#pump(exec);
    } else {
      others(peer, frame);
    }
  }

  #attach(peer: FakePeer, request: number, id: bigint): void {
    const exec = this.execs.get(id);
    if (exec === undefined) {
      peer.send('error', request, { code: '4', errno: '0', step: '', detail: '' });
      return;
    }
    exec.consumer = peer;
    exec.sent = [...exec.committed];
    exec.endSent = false;
    peer.send('attached', request, {
      exec: id.toString(),
      stdout_from: String(exec.committed[0]),
      stderr_from: String(exec.committed[1]),
      ...sampleEffective,
    });
    this.#pump(exec);
  }

  #commit(id: bigint, fields: Frame['fields']): void {
    const exec = this.execs.get(id);
    if (exec === undefined) return;
    for (const [index, stream] of STREAMS.entries()) {
      const to = Math.max(
        exec.committed[index] as number,
        Math.min(Number(fields[stream]), exec.sent[index] as number),
      );
      exec.committed[index] = to;
      this.#cut(exec, index, to);
    }
    if (fields['end'] === '1' && exec.endSent) this.execs.delete(id);
    else this.#pump(exec);
  }

  #left(peer: FakePeer): void {
    for (const exec of this.execs.values()) {
      if (exec.consumer !== peer) continue;
      exec.consumer = null;
      this.#pump(exec);
    }
  }

  /** Bytes before `to` are gone. */
  #cut(exec: ModelExec, index: number, to: number): void {
    const base = exec.base[index] as number;
    if (to <= base) return;
    exec.spool[index] = (exec.spool[index] as Buffer).subarray(to - base);
    exec.base[index] = to;
  }

  #pump(exec: ModelExec): void {
    while (!exec.killed && exec.next < exec.writes.length) {
      const { stream, data } = exec.writes[exec.next] as Write;
      const index = STREAMS.indexOf(stream);
      if ((exec.produced[index] as number) >= this.pauseAt) break;
      const excess = (exec.spool[index] as Buffer).length + data.length - SPOOL;
      if (excess > 0) {
        if (exec.consumer !== null || exec.block) break;
        this.#cut(exec, index, (exec.base[index] as number) + excess);
      }
      exec.spool[index] = Buffer.concat([exec.spool[index] as Buffer, data]);
      exec.produced[index] = (exec.produced[index] as number) + data.length;
      exec.next += 1;
      this.#send(exec, index);
    }
    for (const index of [0, 1]) this.#send(exec, index);
    exec.ended = exec.killed || (!exec.held && exec.next === exec.writes.length);
    if (!exec.ended || exec.endSent || exec.consumer === null) return;
    exec.endSent = true;
    exec.consumer.end(
      exec.id,
      ...exec.produced,
      exec.killed ? { end: '5', cause: '2', exit_code: '-1', signal: '9' } : {},
    );
  }

  #send(exec: ModelExec, index: number): void {
    const { consumer } = exec;
    if (consumer === null) return;
    const [base, produced] = [exec.base[index] as number, exec.produced[index] as number];
    this.mostUncommitted = Math.max(this.mostUncommitted, produced - base);
    if ((exec.sent[index] as number) < base) {
      const gap = {
        exec: exec.id.toString(),
        stream: String(index + 1),
        from: String(exec.sent[index]),
        to: String(base),
      };
      consumer.send('gap', 0, gap);
      exec.sent[index] = base;
    }
    while ((exec.sent[index] as number) < produced) {
      const from = exec.sent[index] as number;
      const data = (exec.spool[index] as Buffer).subarray(from - base, from - base + this.eventBytes);
      consumer.write(outputFrame(exec.id, index === 0 ? 1 : 2, from, data));
      exec.sent[index] = from + data.length;
    }
  }
}
