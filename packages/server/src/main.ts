/** Composition root of the daemon's Node, which `supervise` starts with the path of its record. */

import { readFileSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { availableParallelism, totalmem } from 'node:os';
import { join } from 'node:path';
import { createLogger, die, type Listener, type Listening, listen, runService, type Service } from '@boxkite/kit';
import { createSidecar, DaemonHost, daemonSettings, findBinaries } from '@boxkite/local/daemon';
import {
  ALLOWED_COMMANDS,
  CLIENT_SOCKET,
  type DaemonRecord,
  daemonLayout,
  listenerTls,
  readRecord,
} from '@boxkite/local/serve';
import { hideCredentials } from '@boxkite/policy';
import { startDaemon } from './daemon.ts';
import type { MachineLimits } from './services/sandbox-spec.ts';

/** Descriptors of listening sockets, in the order of the launcher: `/v1`, the sidecar, then TCP. */
const SERVER_DESCRIPTOR = 4;
const SIDECAR_DESCRIPTOR = 5;
const FIRST_TCP_DESCRIPTOR = 6;
const MIB = 1024 * 1024;

const logger = createLogger(process.stderr, hideCredentials);

function listenersOf(record: DaemonRecord): readonly Listener[] {
  const tls = listenerTls(record);
  const tcp = record.listen.map((_address, index) => ({ on: { fd: FIRST_TCP_DESCRIPTOR + index }, tls }));
  return [{ on: { fd: SERVER_DESCRIPTOR } }, ...tcp];
}

function machineLimits({ probe }: DaemonHost, { ceilings }: DaemonRecord): MachineLimits {
  const works = (layer: string): boolean =>
    probe.layers.some(({ name, status }) => name === layer && status === 'works');
  return {
    memory_mb: works('memory_limit') ? Math.floor(totalmem() / MIB) : null,
    cpus: works('cpu_limit') ? availableParallelism() : null,
    ceilings,
  };
}

/** The list of the whole deployment; `null`: none. */
function allowedCommands({ run }: DaemonRecord): string | null {
  const text = readFileSync(join(run, ALLOWED_COMMANDS), 'utf8');
  return text === 'null' ? null : text;
}

/** One line for people: where it serves, and how to use it. */
function greeting(record: DaemonRecord): string {
  const { socket, key } = daemonLayout(record);
  const tcp = record.listen.map((address) => `${record.tls ? 'https' : 'http'}://${address}`);
  // Programs find the usual one by themselves.
  const named = record.usual ? '' : `BOXKITE_URL=unix://${socket} `;
  return `boxkite: serves at ${[socket, ...tcp].join(' and ')}; the key is in ${key}; try: ${named}boxkite create\n`;
}

/** The sandboxes' own API: its tokens are in the supervisor's blobs and nowhere else. */
async function serveSidecar(host: DaemonHost, closing: AbortSignal): Promise<Listening> {
  const app = createSidecar(host.registry, { logger, closing, runner: findBinaries().runner });
  return listen(app, [{ on: { fd: SIDECAR_DESCRIPTOR } }]);
}

async function start(path: string | undefined): Promise<Service> {
  if (path === undefined) throw new Error('the path of a record is missing');
  const record = readRecord(path);
  const layout = daemonLayout(record);
  const host = await DaemonHost.open({
    instance: record.instance,
    records: join(layout.nodeData, 'records'),
    roots: record.roots,
    runnerSocket: join(record.run, CLIENT_SOCKET),
    settings: { ...daemonSettings, allowedCommands: allowedCommands(record) },
    report: (what, error, sandbox) => logger.error({ err: error, sandbox }, what),
  });
  void host.lost.then((what) => die(new Error(`the ${what} is gone`), logger));
  const daemon = await startDaemon({
    substrate: host.substrate,
    instance: record.instance,
    version: record.version,
    startedAt: record.started_at,
    runner: {
      mode: host.probe.mode,
      layers: Object.fromEntries(host.probe.layers.map(({ name, status }) => [name, status !== 'missing'])),
    },
    machine: machineLimits(host, record),
    dataDirectory: layout.nodeData,
    runtimeDirectory: layout.node,
    listeners: listenersOf(record),
    limits: { total: record.max_sandboxes, perAccount: record.max_sandboxes },
    logger,
  });
  const closing = new AbortController();
  const sidecar = await serveSidecar(host, closing.signal);
  await host.ready();
  process.stderr.write(greeting(record));
  // Nothing is written while a request waits; a process that is killed has no other moment.
  flushCompileCache();
  return {
    close: async () => {
      closing.abort();
      await daemon.close('daemon_stopped');
      await sidecar.close();
      await host.close();
    },
  };
}

const [, , path] = process.argv;
await runService(() => start(path), logger);
