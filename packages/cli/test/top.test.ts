/** `boxkite top`: samples, pictures, and the terminal it is given. */
import { expect, test, vi } from 'vitest';
import { displayWidth } from '../src/text.ts';
import { frameLines } from '../src/top/frame.ts';
import { Sampler } from '../src/top/samples.ts';
import { call, FakeIo, services } from './support/fake-io.ts';
import { FakeServer } from './support/fake-server.ts';

function many(count: number): FakeServer {
  const server = new FakeServer();
  for (let each = 0; each < count; each += 1) {
    const sandbox = server.add(`${each.toString(16).padStart(8, '0')}-0000-4000-8000-000000000000`, {
      label: each % 3 === 0 ? undefined : `task ${each}`,
    });
    sandbox.usage = { memory_bytes: each * 1_000_000, cpu_ms: each * 10, processes: each % 7, execs: each % 2 };
  }
  return server;
}

async function list(server: FakeServer) {
  const all = [];
  for await (const each of server.usage()) all.push(each);
  return all;
}

test('the share of CPU is what was used between two samples, the busiest first', async () => {
  const server = many(3);
  const sampler = new Sampler();
  const first = sampler.next(await list(server), 1000, 0);
  expect(first.sandboxes.map(({ cpu_percent }) => cpu_percent)).toEqual([null, null, null]);
  const use = (index: number, cpu_ms: number | null): void => {
    const sandbox = server.all[index];
    if (sandbox !== undefined) sandbox.usage = { ...sandbox.usage, cpu_ms };
  };
  use(0, 500);
  use(1, 1010 + 10);
  use(2, 3);
  const second = sampler.next(await list(server), 2000, 1000);
  expect(second.at).toBe('1970-01-01T00:00:01.000Z');
  expect(second.sandboxes.map(({ id, cpu_percent }) => [Number(id.slice(0, 8)), cpu_percent])).toEqual([
    [1, 101],
    [0, 50],
    [2, null],
  ]);
  use(1, null);
  expect(
    sampler.next(await list(server), 3000, 2000).sandboxes.find(({ label }) => label === 'task 1')?.cpu_percent,
  ).toBeNull();
});

test.each([
  [0, 24, 80],
  [5, 24, 80],
  [30, 40, 120],
  [1000, 40, 100],
  [1000, 10, 30],
  [3, 3, 20],
])('a picture of %i sandboxes fits %i rows of %i columns', async (count, rows, columns) => {
  const sample = new Sampler().next(await list(many(count)), 0, Date.parse('2026-03-01T12:00:00Z'));
  const lines = frameLines(sample, { size: { rows, columns }, scroll: 0, problem: null, paint: (_tone, text) => text });
  expect(lines).toHaveLength(rows);
  for (const line of lines) expect(displayWidth(line)).toBeLessThan(columns);
  if (count === 1000 && rows === 40) {
    expect(lines[0]).toMatch(/^\d\d:00:00 {3}1,000 sandboxes: 1,000 ready {3}500 execs {3}CPU - {3}memory 465 GiB$/);
    expect(lines.at(-1)).toBe('1-36 of 1,000   q quit   arrows, PgUp, PgDn scroll');
  }
});

test('columns stay where they are when what they hold changes', async () => {
  const server = many(30);
  const view = {
    size: { rows: 40, columns: 100 },
    scroll: 0,
    problem: null,
    paint: (_tone: string, text: string) => text,
  };
  const sampler = new Sampler();
  const before = frameLines(sampler.next(await list(server), 0, 0), view);
  for (const sandbox of server.all) sandbox.usage = { memory_bytes: 5, cpu_ms: 99_999, processes: 200, execs: 0 };
  const after = frameLines(sampler.next(await list(server), 1000, 0), view);
  expect(after[2]).toBe(before[2]);
  expect(after[2]).toMatch(/^ID +LABEL +STATE +CPU % +MEMORY +PROCS +EXECS$/);
});

function onTerminal(): FakeIo {
  return new FakeIo({ terminals: [0, 1], stdinEmpty: false, size: { columns: 90, rows: 12 }, env: { NO_COLOR: '1' } });
}

/** The screen after the last picture. */
function picture(out: string): string[] {
  const last = out.split('\u001b[H').at(-1) ?? '';
  return (
    last
      .split('\u001b[J')[0]
      ?.split('\r\n')
      .map((line) => line.replace('\u001b[K', '')) ?? []
  );
}

test.each([
  ['q', 0],
  ['\u0003', 0],
] as const)('%j leaves a sane terminal', async (key, status) => {
  const io = onTerminal();
  const running = call(['top'], services(many(3)), io);
  await vi.waitFor(() => expect(io.out).toContain('3 sandboxes'), 20_000);
  expect(io.out.startsWith('\u001b[?1049h\u001b[?25l')).toBe(true);
  expect(io.rawModes).toEqual([true]);
  io.input.write(key);
  expect((await running).status).toBe(status);
  expect(io.out.endsWith('\u001b[?25h\u001b[?1049l')).toBe(true);
  expect(io.rawModes).toEqual([true, false]);
  expect(io.listening).toBe(0);
});

test('a signal leaves a sane terminal too', async () => {
  const io = onTerminal();
  const running = call(['top'], services(many(3)), io);
  await vi.waitFor(() => expect(io.out).toContain('3 sandboxes'), 20_000);
  io.send('SIGTERM');
  expect((await running).status).toBe(143);
  expect(io.out.endsWith('\u001b[?25h\u001b[?1049l')).toBe(true);
});

test('it scrolls, follows the window, and goes on when the daemon does not answer for a while', async () => {
  const server = many(50);
  const io = onTerminal();
  const running = call(['top'], services(server), io);
  await vi.waitFor(() => expect(picture(io.out).at(-1)).toContain('1-8 of 50'), 20_000);
  io.input.write('\u001b[6~');
  await vi.waitFor(() => expect(picture(io.out).at(-1)).toContain('9-16 of 50'), 20_000);
  io.input.write('\u001b[A');
  await vi.waitFor(() => expect(picture(io.out).at(-1)).toContain('8-15 of 50'), 20_000);
  io.input.write('G');
  await vi.waitFor(() => expect(picture(io.out).at(-1)).toContain('43-50 of 50'), 20_000);
  io.input.write('g');
  io.size = { columns: 60, rows: 20 };
  io.send('SIGWINCH');
  await vi.waitFor(() => expect(picture(io.out).at(-1)).toContain('1-16 of 50'), 20_000);
  expect(picture(io.out)).toHaveLength(20);
  const usage = server.usage.bind(server);
  server.usage = () => {
    throw new Error('gone');
  };
  await vi.waitFor(() => expect(picture(io.out)[1]).toMatch(/^no answer since \d\d:\d\d:\d\d: gone/), 20_000);
  server.usage = usage;
  await vi.waitFor(() => expect(picture(io.out)[1]).toBe(''), 20_000);
  io.input.write('q');
  expect((await running).status).toBe(0);
});

test('without a terminal it prints one sample of all', async () => {
  const { status, out } = await call(['top'], services(many(40)));
  expect(status).toBe(0);
  expect(out).not.toContain('\u001b');
  expect(out.trimEnd().split('\n')).toHaveLength(43);
});

test('--json --once is one line with shares of CPU', async () => {
  const { out } = await call(['top', '--json', '--once'], services(many(2)));
  const lines = out.trimEnd().split('\n');
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    sandboxes: [{ cpu_percent: 0, usage: { execs: 1 }, state: 'ready' }, { cpu_percent: 0 }],
  });
});
