/**
 * Rounds of create, write, exec and kill -9 of a random one of {client, Node, runner}: no acknowledged write is lost but
 * those of a tmpfs workspace with its runner, which is reported; nothing is left; no state is wrong.
 * `BOXKITE_CHAOS_ROUNDS` sets their number.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import {
  groupsOf,
  lane,
  makeDataDirectory,
  placesOf,
  processes,
  processesOf,
  removeDaemon,
  sleep,
  startDaemon,
  type TestDaemon,
  within,
} from '@boxkite/testing';
import { itemsOf } from '@boxkite/testing/contract';
import type { HttpProvider } from 'boxkite';
import { BoxkiteFailure, Sandbox, serverProvider } from 'boxkite';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const ROUNDS = Number(process.env['BOXKITE_CHAOS_ROUNDS'] ?? 6);
const CLIENT = join(import.meta.dirname, 'support', 'chaos-client.ts');
const VICTIMS = ['client', 'node', 'runner'] as const;
/** Longest time that a client works before something is killed. */
const WORK_MS = 400;

const line = z.union([
  z.object({ wrote: z.string(), id: z.string(), hash: z.string() }),
  z.object({ ran: z.string(), id: z.string(), end: z.string() }),
  z.object({ wrong: z.string(), id: z.string(), name: z.string() }),
  z.object({ failed: z.string(), id: z.string() }),
]);

/** What clients were told, by sandbox. */
class Promises {
  readonly writes = new Map<string, Map<string, string>>();
  readonly execs = new Map<string, Set<string>>();
  readonly wrong: string[] = [];

  note(text: string): void {
    const entry = line.parse(JSON.parse(text));
    if ('wrote' in entry) {
      const files = this.writes.get(entry.id) ?? new Map<string, string>();
      this.writes.set(entry.id, files.set(entry.wrote, entry.hash));
    } else if ('ran' in entry) {
      const execs = this.execs.get(entry.id) ?? new Set<string>();
      this.execs.set(entry.id, execs.add(entry.ran));
    } else if ('wrong' in entry) this.wrong.push(text);
  }

  /** Holds a sandbox to every write that was acknowledged. */
  async check(sandbox: Sandbox): Promise<void> {
    for (const [name, hash] of this.writes.get(sandbox.id) ?? []) {
      const found = createHash('sha256')
        .update(await sandbox.files.readBytes(name))
        .digest('hex');
      expect(found, `${name} in ${sandbox.id}`).toBe(hash);
    }
    expect(this.wrong).toEqual([]);
  }
}

interface Client {
  /** Resolves when a write was acknowledged: what is killed before has nothing to lose. */
  began(): Promise<void>;
  kill(): Promise<void>;
}

function startClient(daemon: TestDaemon, ids: readonly string[], promises: Promises): Client {
  const child = spawn(process.execPath, [CLIENT, daemon.socket, daemon.places.key, ...ids], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout });
  const wrote = Promise.withResolvers<void>();
  lines.on('line', (text) => {
    // The last line of a killed client may be half: what it says was not promised to anybody.
    if (!text.endsWith('}')) return;
    promises.note(text);
    if (text.startsWith('{"wrote"')) wrote.resolve();
  });
  const closed = once(lines, 'close');
  return {
    began: async () => {
      const began = await Promise.race([wrote.promise.then(() => true), closed.then(() => false)]);
      expect(began, 'the client ended before it wrote').toBe(true);
    },
    kill: async () => {
      child.kill('SIGKILL');
      await closed;
    },
  };
}

/** Calls again while the daemon comes back. */
async function back<T>(call: () => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof BoxkiteFailure) || attempt === 200) throw error;
      if (!['daemon_unreachable', 'connection_lost', 'state_unavailable'].includes(error.code)) throw error;
      await sleep(25);
    }
  }
}

class Chaos {
  readonly data = makeDataDirectory();
  readonly promises = new Promises();
  daemon!: TestDaemon;
  provider!: HttpProvider;
  /** Lives through everything where workspaces can be kept. */
  disk: string | null = null;

  async open(): Promise<void> {
    this.daemon = await startDaemon({ data: this.data });
    this.provider = serverProvider({ url: this.daemon.url, apiKey: this.daemon.key() });
  }

  async round(victim: (typeof VICTIMS)[number]): Promise<void> {
    const { provider, promises } = this;
    const kept = await Sandbox.create({ provider, workspace_mb: 64 });
    if (this.disk === null && lane === 'root')
      this.disk = (await Sandbox.create({ provider, workspace: 'disk', workspace_mb: 256 })).id;
    const ids = this.disk === null ? [kept.id] : [kept.id, this.disk];
    const client = startClient(this.daemon, ids, promises);
    await client.began();
    await sleep(Math.random() * WORK_MS);
    if (victim === 'client') await client.kill();
    else if (victim === 'node') await this.daemon.killNode();
    else await this.killRunner();
    await sleep(Math.random() * 50);
    if (victim !== 'client') await client.kill();
    await (victim === 'runner' ? this.afterRunner(kept.id) : this.afterOthers(kept.id));
  }

  async killRunner(): Promise<void> {
    const runnerDirectory = join(this.daemon.places.runtime, 'runner');
    const groups = groupsOf(runnerDirectory);
    const family = processesOf(this.daemon.pid, '/nonexistent').map(({ pid, name }) => `${pid} ${name}`);
    expect(family.length).toBeGreaterThan(2);
    await this.daemon.killRunner();
    await this.provider.close();
    await this.open();
    const alive = new Set(processes().flatMap(({ pid, name, state }) => (state === 'Z' ? [] : [`${pid} ${name}`])));
    expect(family.filter((member) => alive.has(member))).toEqual([]);
    expect(groups.filter((group) => existsSync(group))).toEqual([]);
  }

  async afterRunner(id: string): Promise<void> {
    const { provider, promises, disk } = this;
    const lost = await provider.sandboxes.get(id);
    expect(lost).toMatchObject({
      state: 'failed',
      state_reason: 'runner_lost',
      workspace: { kind: 'tmpfs', kept: false },
    });
    promises.writes.delete(id);
    // Records end with the runner that ran their commands; files of a disk do not.
    promises.execs.clear();
    if (disk === null) return;
    expect(await provider.sandboxes.get(disk)).toMatchObject({
      state: 'failed',
      state_reason: 'runner_lost',
      workspace: { kind: 'disk', kept: true },
    });
    await promises.check(await Sandbox.start(disk, { provider }));
  }

  async afterOthers(id: string): Promise<void> {
    const { provider, promises, disk } = this;
    for (const each of disk === null ? [id] : [id, disk]) {
      expect((await back(async () => await provider.sandboxes.get(each))).state).toBe('ready');
      const sandbox = await Sandbox.connect(each, { provider });
      await promises.check(sandbox);
      const execs = await sandbox.execs.list();
      const known = new Map(execs.map((summary) => [summary.exec_id, summary]));
      for (const exec of promises.execs.get(each) ?? []) expect(known.get(exec)?.record?.end, exec).toBe('exited');
      expect((await sandbox.exec('echo usable')).stdout).toBe('usable\n');
    }
    await (await Sandbox.connect(id, { provider })).destroy();
    promises.writes.delete(id);
  }

  async close(): Promise<void> {
    if (this.disk !== null) await this.provider.sandboxes.destroy(this.disk);
    for (const { id, state } of await itemsOf(this.provider.sandboxes.list()))
      if (state !== 'destroyed') await this.provider.sandboxes.destroy(id);
    await this.provider.close();
    expect(await this.daemon.stop()).toEqual({ code: 0, signal: null });
    removeDaemon(placesOf(this.data));
  }
}

describe(`chaos, ${lane}`, () => {
  it(`loses nothing that was acknowledged in ${ROUNDS} rounds of kill -9`, {
    timeout: within(60_000 + ROUNDS * 20_000),
  }, async () => {
    const chaos = new Chaos();
    await chaos.open();
    for (let round = 0; round < ROUNDS; round += 1) {
      const victim = round < VICTIMS.length ? VICTIMS[round] : VICTIMS[Math.floor(Math.random() * VICTIMS.length)];
      await chaos.round(victim ?? 'runner');
    }
    await chaos.close();
  });
});
