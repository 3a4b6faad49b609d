import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createByteRedactor } from '@boxkite/policy';
import type { ExecEvent, OutputStream } from '@boxkite/protocol';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { effective } from '../../protocol/test/values.ts';
import { Session } from '../src/session/session.ts';
import { ModelRunner, SANDBOX, type Write } from './support/model-runner.ts';
import { inLife, type Life } from './support/mortal-disk.ts';

vi.mock('../src/records/disk.ts', async (original) => {
  const { mortal } = await import('./support/mortal-disk.ts');
  return mortal(await original());
});

const SECRET = 'correct horse battery';

/** Everything that one user of an exec has got, whatever process it came from. */
class Received {
  readonly at: Record<OutputStream, number> = { stdout: 0, stderr: 0 };
  readonly pieces: Record<OutputStream, { readonly offset: number; readonly text: string }[]> = {
    stdout: [],
    stderr: [],
  };
  gaps = 0;
  ended = 0;

  take(event: ExecEvent): void {
    if (event.type === 'ended') {
      this.ended += 1;
      return;
    }
    const from = event.type === 'output' ? event.offset : event.from;
    if (from !== this.at[event.stream])
      throw new Error(`${event.stream} at ${from} instead of ${this.at[event.stream]}`);
    if (event.type === 'gap') {
      this.gaps += 1;
      this.at[event.stream] = event.to;
    } else {
      const text = Buffer.from(event.data).toString('latin1');
      this.pieces[event.stream].push({ offset: event.offset, text });
      this.at[event.stream] += event.data.length;
    }
  }

  text(stream: OutputStream): string {
    return this.pieces[stream].map(({ text }) => text).join('');
  }

  /** Every byte is what belongs to its offset. */
  check(stream: OutputStream, whole: string): void {
    expect(this.at[stream]).toBe(whole.length);
    for (const { offset, text } of this.pieces[stream]) {
      if (whole.slice(offset, offset + text.length) !== text) throw new Error(`${stream}: other bytes at ${offset}`);
    }
  }
}

function redacted(writes: readonly Write[], stream: OutputStream): string {
  const redactor = createByteRedactor({ TOKEN: SECRET });
  const parts = writes.filter((write) => write.stream === stream).map(({ data }) => Buffer.from(redactor.push(data)));
  return Buffer.concat([...parts, Buffer.from(redactor.flush())]).toString('latin1');
}

/** What a record of so many bytes keeps. */
function kept(whole: string, bytes = Infinity): string {
  if (whole.length <= bytes) return whole;
  return whole.slice(0, Math.ceil(bytes / 2)) + whole.slice(whole.length - Math.floor(bytes / 2));
}

function overdue(): Promise<'overdue'> {
  return new Promise((resolve) => {
    setTimeout(() => resolve('overdue'), 30_000).unref();
  });
}

/** The blob outlives every process, as a supervisor keeps it. */
function blobOf(): { get(): Uint8Array | null; put(blob: Uint8Array): Promise<void> } {
  let blob: Uint8Array | null = null;
  return {
    get: () => blob,
    put: async (next) => {
      blob = next;
    },
  };
}

/** What is hidden by its form, in whole and in parts that meet in the next write. */
const CREDENTIALS: Readonly<Record<string, string>> = {
  token: ` ghp_${'aB3'.repeat(12)} `,
  'begin of a token': ` ghp_${'aB3'.repeat(6)}`,
  'end of a token': `${'aB3'.repeat(6)} `,
  label: ' password=',
  value: 'correct-h0rse\n',
  'begin of a key': '\n-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC',
  'end of a key': 'BKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----\n',
  'end of a line': '\n',
};

const piece = fc.record({
  stream: fc.constantFrom<OutputStream>('stdout', 'stdout', 'stderr'),
  size: fc.integer({ min: 1, max: 40_000 }),
  secret: fc.constantFrom('no', 'whole', 'begin', 'end', ...Object.keys(CREDENTIALS)),
});

function writesOf(pieces: readonly { stream: OutputStream; size: number; secret: string }[]): Write[] {
  return pieces.map(({ stream, size, secret }, index) => {
    const filler = Buffer.alloc(size, `${index} lines of output, `);
    const half = SECRET.length >> 1;
    if (secret === 'whole') return { stream, data: Buffer.concat([filler, Buffer.from(SECRET)]) };
    if (secret === 'begin') return { stream, data: Buffer.concat([filler, Buffer.from(SECRET.slice(0, half))]) };
    if (secret === 'end') return { stream, data: Buffer.concat([Buffer.from(SECRET.slice(half)), filler]) };
    const credential = CREDENTIALS[secret];
    // Without anything between it and what comes before.
    if (credential !== undefined)
      return { stream, data: Buffer.from(index % 2 === 0 ? credential : `${credential}${filler}`) };
    return { stream, data: filler };
  });
}

test('a process that is killed at any operation of its disk loses and repeats nothing', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(piece, { minLength: 1, maxLength: 40 }),
      fc.array(
        fc.record({ operations: fc.integer({ min: 1, max: 24 }), share: fc.double({ min: 0, max: 1, noNaN: true }) }),
        {
          minLength: 1,
          maxLength: 4,
        },
      ),
      fc.constantFrom(1000, 16_384, 65_536),
      fc.constantFrom(undefined, 70_001, 250_000),
      fc.constantFrom(4096, 300_000),
      async (pieces, deaths, eventBytes, output_bytes, block) => {
        const writes = writesOf(pieces);
        const directory = await mkdtemp(join(tmpdir(), 'boxkite-crash-'));
        await using runner = await ModelRunner.start({ plan: writes });
        runner.eventBytes = eventBytes;
        // Small ones are read into again and again.
        runner.readSizes = { block, leastRead: block / 4, leastHeld: 16 };
        const state = blobOf();
        const received = new Received();
        let known: string | null = null;
        for (const death of [...deaths, { operations: Infinity, share: 0 }]) {
          const life: Life = { ...death, dead: false, active: 0, onDeath: null };
          const died = new Promise<'died'>((resolve) => {
            life.onDeath = () => resolve('died');
          });
          const lived = inLife(life, async () => {
            const { access, cut } = await runner.connect();
            void died.then(cut);
            const session = await Session.open({
              id: 'sandbox',
              sandbox: SANDBOX,
              effective,
              runner: access,
              directory: join(directory, 'records'),
              state,
              listing: runner.listing(),
            });
            if (life.dead) return 'died';
            if (known === null) {
              // Its record may be written and the answer not sent; an exec without a record is killed.
              const [found] = await session.execs.list();
              const { exec_id } =
                found ??
                (await session.execs.start({
                  argv: ['sh', 'plan'],
                  secret_env: { TOKEN: SECRET },
                  limits: { output_bytes },
                }));
              if (life.dead) return 'died';
              known = exec_id;
            }
            for await (const event of session.execs.output(known, { ...received.at, lent: true })) {
              if (life.dead) return 'died';
              received.take(event);
            }
            // As soon as the runner may forget it, all that is kept is stored.
            await vi.waitFor(() => expect(runner.execs.size).toBe(0), 20_000);
            // The end and all output can be had again, from anywhere.
            const again = new Received();
            for await (const event of session.execs.output(known)) again.take(event);
            for (const stream of ['stdout', 'stderr'] as const) {
              again.check(stream, redacted(writes, stream));
              expect(again.text(stream) === kept(redacted(writes, stream), output_bytes)).toBe(true);
            }
            expect(await session.execs.list()).toMatchObject([
              { exec_id: known, state: 'ended', record: { end: 'exited' } },
            ]);
            await session.close();
            return 'lived' as const;
          });
          const outcome = await Promise.race([lived, died, overdue()]);
          if (outcome === 'overdue')
            throw new Error(`stuck: ${JSON.stringify(received.at)} ${JSON.stringify(runner.listing().execs)}`);
          if (outcome === 'lived') break;
        }
        // Told again to whoever asks the next process for it.
        expect(received.ended).toBeGreaterThan(0);
        if (output_bytes === undefined) expect(received.gaps).toBe(0);
        for (const stream of ['stdout', 'stderr'] as const) received.check(stream, redacted(writes, stream));
        expect(runner.mostUncommitted).toBeLessThanOrEqual(1024 * 1024);
        await rm(directory, { recursive: true });
      },
    ),
    { endOnFailure: true, numRuns: Number(process.env['BOXKITE_CRASH_RUNS'] ?? 40) },
  );
});
