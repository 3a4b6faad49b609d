/** `boxkite run`: through the daemon where there is one. */
import { BoxkiteError } from '@boxkite/protocol';
import { expect, test, vi } from 'vitest';
import { LEASE_MINUTES, Lease } from '../src/lease.ts';
import type { Services } from '../src/services.ts';
import { call, FakeIo, services } from './support/fake-io.ts';
import { FakeServer, output } from './support/fake-server.ts';

/** A server that stands for the private provider, since both are providers. */
function withBoth(server: FakeServer | null): { readonly given: Services; readonly own: FakeServer } {
  const own = new FakeServer();
  return { own, given: { findServer: async () => server, privateProvider: async () => own } };
}

test('run makes a sandbox at the daemon, with a short life and a label, and removes it', async () => {
  const server = new FakeServer();
  server.script = function* (exec) {
    yield output('out');
    yield exec.record({ exit_code: 4 });
  };
  const outcome = await call(['run', '--memory', '64', '--', 'ls', 'a b'], services(server));
  expect(outcome).toEqual({ status: 4, out: 'out', err: '' });
  expect(server.made).toMatchObject([{ memory_mb: 64, label: "run: ls 'a b'", lifetime_minutes: 10 }]);
  expect(server.all[0]?.summary.state).toBe('destroyed');
  expect(server.closed).toBe(1);
});

test.each([[['--private']], [['--rootfs', './debian']]])('run %j uses no daemon', async (options) => {
  const server = new FakeServer();
  const { given, own } = withBoth(server);
  expect((await call(['run', ...options, '--', 'x'], given)).status).toBe(0);
  expect(server.made).toEqual([]);
  expect(own.made).toHaveLength(1);
  expect(own.closed).toBe(1);
});

test('run asks the daemon for a root file system by name', async () => {
  const server = new FakeServer();
  await call(['run', '--rootfs', 'debian', '--', 'x'], withBoth(server).given);
  expect(server.made).toMatchObject([{ rootfs: 'debian' }]);
});

class Unreachable extends FakeServer {
  override async create(): Promise<never> {
    throw new BoxkiteError('daemon_unreachable', 'nobody answers');
  }
}

test('run goes its own way where a socket is left and nobody answers, unless a server is named', async () => {
  const { given, own } = withBoth(new Unreachable());
  expect(await call(['run', '--', 'x'], given)).toEqual({ status: 0, out: '', err: '' });
  expect(own.made).toHaveLength(1);
  const named = withBoth(new Unreachable());
  const io = new FakeIo({ env: { BOXKITE_URL: 'http://127.0.0.1:1' } });
  expect((await call(['run', '--', 'x'], named.given, io)).err).toContain('(daemon_unreachable)');
  expect(named.own.made).toEqual([]);
});

test('run removes its sandbox when it is interrupted', async () => {
  const server = new FakeServer();
  server.script = async function* (exec) {
    yield output('ready');
    while (exec.calls.length === 0) await exec.heard();
    yield exec.record({ end: 'signaled', exit_code: null, signal: 'SIGTERM' });
  };
  const io = new FakeIo();
  io.output.once('data', () => io.send('SIGTERM'));
  expect((await call(['run', '--', 'x'], services(server), io)).status).toBe(143);
  expect(server.all[0]?.summary.state).toBe('destroyed');
});

test('the sandbox of a command that runs long is kept alive, and no longer', () => {
  vi.useFakeTimers();
  try {
    const extended: unknown[] = [];
    const extend = (id: string, minutes: number): Promise<never> => {
      extended.push([id, minutes]);
      return Promise.reject(new BoxkiteError('connection_lost', 'for a moment'));
    };
    const lease = new Lease({ extend }, 'x');
    vi.advanceTimersByTime(2.5 * 60_000);
    expect(extended).toEqual([
      ['x', LEASE_MINUTES],
      ['x', LEASE_MINUTES],
    ]);
    lease.end();
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});
