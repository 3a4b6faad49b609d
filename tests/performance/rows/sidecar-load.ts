/** `GET /health` of a sidecar that is busy, TLS, and what Node holds while it does nothing. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { launchSidecar, makeTlsPair, type TestSidecar } from '@boxkite/testing';
import { percentile } from '../../../tools/demo/statistics.ts';
import { need } from '../bare.ts';
import { amount, compare, type Round } from '../comparison.ts';
import { amountOfCalls } from '../effort.ts';
import { atPercentile, callByCall, sandwich, timed } from '../rounds.ts';
import type { Row } from '../row.ts';
import { connectionTo, SidecarConnection, withSidecar } from '../sidecars.ts';

const SOURCE = 'tests/performance/rows/sidecar-load.ts';
const LOAD = fileURLToPath(new URL('../programs/sidecar-load.ts', import.meta.url));
const EXECS = 64;
const MIB = 1024 * 1024;
const SEARCHED_MB = 1024;
const SETTLE_MS = 20_000;

/** How long `GET /health` takes beside 64 commands and a search through 1 GB. */
export const sidecarHealth: Row = {
  name: 'sidecar-health',
  source: SOURCE,
  what: `GET /health while ${EXECS} commands are in flight and a search through 1 GB runs`,
  baseline: 'GET /health of the same sidecar when it is idle',
  run: async ({ rounds, scale }) => {
    const megabytes = Math.max(1, Math.round(SEARCHED_MB * Math.min(1, scale)));
    const args = ['--workspace-mb', String(SEARCHED_MB + 64), '--memory', '4096'];
    const env = { SIDECAR_GREP_MAX_BYTES_SCANNED: String(2 * SEARCHED_MB * MIB), SIDECAR_GREP_TIMEOUT_SECONDS: '120' };
    return await withSidecar(
      async (sidecar) => {
        using connection = connectionTo(sidecar);
        const line = 'a line of text for a search that finds nothing';
        const command = `yes '${line}' | head -c ${megabytes}M >/workspace/searched`;
        await connection.call('POST', '/exec', { command, timeout: 120 });
        const calls = amountOfCalls(1000, scale);
        const p99 = async (): Promise<number> => {
          const times: number[] = [];
          for (let call = 0; call < calls; call += 1)
            times.push(await timed(async () => void (await connection.call('GET', '/health'))));
          return percentile(times, 0.99);
        };
        await p99();
        const measured = await sandwich(rounds, async () => await underLoad(sidecar, p99), p99);
        return [compare({ name: 'p99', unit: 'ms', better: 'lower', promise: 10, stretch: 3 }, measured)];
      },
      { args, env },
    );
  },
};

/** Measures once the load is on, and takes it away. */
async function underLoad(sidecar: TestSidecar, measure: () => Promise<number>): Promise<number> {
  const words = ['--disable-warning=ExperimentalWarning', LOAD, String(sidecar.port), sidecar.token, String(EXECS)];
  const load = spawn(process.execPath, [...words, '/workspace/searched'], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [said] = (await Promise.race([once(load.stdout, 'data'), once(load, 'exit')])) as readonly unknown[];
    if (!String(said).includes('loaded')) throw new TypeError('the load ended before it was on');
    const value = await measure();
    if (load.exitCode !== null) throw new TypeError('a call of the load failed');
    return value;
  } finally {
    load.kill('SIGKILL');
    if (load.exitCode === null && load.signalCode === null) await once(load, 'exit');
    await quiet(sidecar);
  }
}

/** Resolves when nothing runs any more. Rejects after ten seconds. */
async function quiet(sidecar: TestSidecar): Promise<void> {
  using connection = connectionTo(sidecar);
  for (let look = 0; look < 100; look += 1) {
    const { execs } = JSON.parse((await connection.call('GET', '/execs')).toString()) as {
      readonly execs: readonly { readonly state: string }[];
    };
    if (execs.every(({ state }) => state === 'ended')) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new TypeError('commands of the load go on: what is measured next would not be idle');
}

/** What TLS costs. */
export const sidecarTls: Row = {
  name: 'sidecar-tls',
  source: SOURCE,
  what: 'TLS 1.3, keep-alive: reads of a file of 16 KiB, and of 256 MiB',
  baseline: 'the same without TLS',
  run: async ({ rounds, scale }) => {
    need('/usr/bin/openssl', 'apt-get install openssl');
    const directory = mkdtempSync(join(tmpdir(), 'boxkite-bench-tls-'));
    try {
      const certificate = readFileSync(makeTlsPair(directory).certificate, 'utf8');
      return await withSidecar(async (plain) => {
        const env = { SANDBOX_SESSION_MAX_EXEC_COUNT: '0', SANDBOX_SESSION_MAX_EXEC_SECONDS: '0' };
        await using secure = await launchSidecar({ bundled: true, args: ['--tls-dir', directory], env });
        using clear = connectionTo(plain);
        using encrypted = new SidecarConnection({ port: secure.port, token: secure.token, certificate });
        const megabytes = Math.max(1, Math.round(256 * Math.min(1, scale)));
        const make = `head -c 16384 /dev/zero >/workspace/small; head -c ${megabytes}M /dev/zero >/workspace/big`;
        await served(encrypted);
        for (const connection of [clear, encrypted]) await connection.call('POST', '/exec', { command: make });
        const small = (connection: SidecarConnection) => async (): Promise<void> => {
          const { length } = await connection.call('GET', '/files/content?path=small');
          if (length !== 16_384) throw new TypeError(`a read of 16 KiB gave ${length} bytes`);
        };
        const big = (connection: SidecarConnection) => async (): Promise<number> => {
          let bytes = 0;
          const ms = await timed(() =>
            connection.stream('GET', '/files/content?path=big', undefined, (chunk) => {
              bytes += chunk.length;
            }),
          );
          if (bytes !== megabytes * MIB) throw new TypeError(`a read of ${megabytes} MiB gave ${bytes} bytes`);
          return ms;
        };
        const samples = await callByCall(rounds, amountOfCalls(500, scale), small(encrypted), small(clear));
        const bulk: readonly Round[] = await sandwich(rounds, big(encrypted), big(clear));
        return [
          compare({ name: 'small p50', unit: 'ms', better: 'lower', promise: 1.3 }, atPercentile(samples, 0.5)),
          compare({ name: 'bulk', unit: 'ms', better: 'lower', promise: 3 }, bulk),
        ];
      });
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  },
};

/** Resolves when it answers. */
async function served(connection: SidecarConnection): Promise<void> {
  for (let look = 0; ; look += 1) {
    try {
      await connection.call('GET', '/health');
      return;
    } catch (error) {
      if (look === 1000) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** What Node holds once it has served one command, and does nothing. */
export const sidecarMemory: Row = {
  name: 'sidecar-memory',
  source: SOURCE,
  what: 'resident memory of the Node of an idle sidecar, bundled',
  baseline: '–',
  run: async ({ rounds, scale }) => {
    const samples: number[] = [];
    for (let round = 0; round < Math.max(1, Math.min(rounds, Math.round(3 * scale))); round += 1) {
      samples.push(
        await withSidecar(async (sidecar) => {
          using connection = connectionTo(sidecar);
          await connection.call('POST', '/exec', { command: 'true' });
          await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
          return residentMegabytes(sidecar.nodePid());
        }),
      );
    }
    return [amount({ name: 'Node', unit: 'MB', better: 'lower', promise: 100, stretch: 80 }, samples)];
  },
};

function residentMegabytes(pid: number): number {
  const kibibytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  if (kibibytes === undefined) throw new TypeError(`process ${pid} shows no memory`);
  return (Number(kibibytes) * 1024) / 1e6;
}
