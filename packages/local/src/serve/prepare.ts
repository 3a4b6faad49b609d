/** From a checked plan to the command line of a service, with everything in place that it needs. */
import { randomBytes } from 'node:crypto';
import { chownSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BoxkiteError, type SandboxCeilings } from '@boxkite/protocol';
import { findBinaries } from '../runner-binaries.ts';
import { type Address, formatAddress } from './addresses.ts';
import { CLIENT_SOCKET, type DaemonRecord, findDaemon, RECORD_NAME, startTicks } from './daemon-record.ts';
import { ensureData, ensureRuntime } from './directories.ts';
import { INSTALLED_NODE, install, removeUnused } from './install.ts';
import type { PlaceOptions, ServicePlaces } from './places.ts';
import { writePrivate } from './private-file.ts';
import { bundledPrograms, bundleIn, presentPrograms, type ServicePrograms } from './programs.ts';
import { type TlsContents, tlsCopies } from './tls.ts';

/** A root file system that sandboxes may be made of. */
export interface NamedRoot {
  readonly name: string;
  readonly directory: string;
}

/** Who starts a service, and where. */
export interface ServeContext extends PlaceOptions {
  /** Of boxkite. */
  readonly version: string;
  /** Where it logs when it is detached. */
  readonly log?: string | undefined;
}

/** What this process is to become. */
export interface Launch {
  readonly program: string;
  /** With the program's name first. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly record: DaemonRecord;
}

/** What a service is started with, checked. */
export interface ServicePlan {
  readonly listen: readonly Address[];
  readonly tls: TlsContents | null;
  /** All of them: the runner's list. */
  readonly roots: readonly NamedRoot[];
  readonly maxSandboxes: number;
  readonly blanks: number;
  readonly idleSeconds: number;
  /** Of each sandbox; the runner holds them against its clients too. */
  readonly ceilings?: SandboxCeilings | undefined;
  /** Unix sockets, which come before the TCP listeners. */
  readonly sockets: readonly string[];
  /** Files of the run that Node alone reads: contents by name. */
  readonly files: Readonly<Record<string, string>>;
}

/** The machine's own root file system, by the name that the runner knows. */
export const HOST_ROOT: NamedRoot = { name: 'host', directory: 'host' };
const RUNNER_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Makes directories and installs programs; nothing runs yet. Errors: `data_unusable`, `runner_failed`. */
export async function prepare(plan: ServicePlan, places: ServicePlaces, context: ServeContext): Promise<Launch> {
  const service = await ensureData(places, context.uid, findBinaries().runner);
  const programs = context.uid === 0 ? await installed(places) : presentPrograms(places.kind);
  const run = ensureRuntime(places, context.uid, service);
  const tls = plan.tls === null ? {} : tlsCopies(plan.tls);
  for (const [name, content] of Object.entries({ ...tls, ...plan.files }))
    writePrivate(join(run, name), content, service);
  const record = recordOf(plan, context, places, run);
  writeRecord(record, service);
  return {
    program: programs.runner,
    args: [
      'boxkite-runner',
      ...runnerArguments(plan, places, record, programs.agent),
      ...(context.uid === 0 ? ['--service-uid', String(service)] : []),
      '--',
      ...superviseArguments(plan, places, record, programs),
    ],
    env: { PATH: RUNNER_PATH },
    record,
  };
}

/** Errors: `already_running`. */
export function refuseSecond(places: ServicePlaces, end: string): void {
  const running = findDaemon(places);
  if (running === null) return;
  const message = `a ${places.kind} with the data directory ${places.data} runs as process ${running.pid}`;
  throw new BoxkiteError('already_running', message, {
    hint: `Use it, or end it by \`${end.replaceAll('PID', String(running.pid))}\`.`,
    details: { pid: running.pid, data: places.data },
  });
}

async function installed(places: ServicePlaces): Promise<ServicePrograms> {
  const scratch = mkdtempSync(join(places.library, '.new-'));
  try {
    const version = await install(places.library, await bundleIn(scratch), process.execPath);
    removeUnused(places.library, version);
    return bundledPrograms(places.kind, version, join(version, INSTALLED_NODE));
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function recordOf(plan: ServicePlan, context: ServeContext, places: ServicePlaces, run: string): DaemonRecord {
  return {
    version: context.version,
    pid: process.pid,
    start_ticks: startTicks(process.pid) ?? '',
    instance: randomBytes(16).toString('hex'),
    started_at: new Date().toISOString(),
    data: places.data,
    runtime: places.runtime,
    usual: places.usual,
    run,
    listen: plan.listen.map(formatAddress),
    tls: plan.tls !== null,
    roots: plan.roots.map(({ name }) => name),
    max_sandboxes: plan.maxSandboxes,
    ceilings: plan.ceilings ?? {},
    log: context.log ?? null,
  };
}

/** Whole from the moment that it is there, for Node to read and the launcher's user alone to write. */
function writeRecord(record: DaemonRecord, service: number): void {
  const path = join(record.run, RECORD_NAME);
  writeFileSync(`${path}.new`, `${JSON.stringify(record)}\n`, { mode: 0o640 });
  if (service !== process.geteuid?.()) chownSync(`${path}.new`, -1, service);
  renameSync(`${path}.new`, path);
}

function runnerArguments(
  plan: ServicePlan,
  places: ServicePlaces,
  record: DaemonRecord,
  agent: string,
): readonly string[] {
  return [
    ...['--dir', places.runner, '--agent', agent, '--state', places.state],
    ...['--client-socket', join(record.run, CLIENT_SOCKET)],
    ...plan.roots.flatMap(({ directory: root }) => ['--root', root]),
    ...['--blanks', String(plan.blanks), '--idle-seconds', String(plan.idleSeconds)],
    ...ceilingArguments(plan.ceilings ?? {}),
  ];
}

function ceilingArguments({ memory_mb, workspace_mb, inodes, pids, cpus }: SandboxCeilings): readonly string[] {
  const given = {
    '--max-memory-mb': memory_mb,
    '--max-workspace-mb': workspace_mb,
    '--max-inodes': inodes,
    '--max-pids': pids,
    '--max-cpu-millis': cpus === undefined ? undefined : Math.floor(cpus * 1000),
  };
  return Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [name, String(value)]));
}

function superviseArguments(
  plan: ServicePlan,
  places: ServicePlaces,
  record: DaemonRecord,
  programs: ServicePrograms,
): readonly string[] {
  return [
    ...plan.sockets.flatMap((path) => ['--socket', path]),
    ...plan.listen.flatMap((address) => ['--tcp', formatAddress(address)]),
    ...['--instance', record.instance, '--home', places.nodeData],
    ...['--', programs.node, ...programs.script, join(record.run, RECORD_NAME)],
  ];
}
