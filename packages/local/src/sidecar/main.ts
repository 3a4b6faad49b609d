/** Composition root of a sidecar's Node, which `supervise` starts with the path of its record. */
import { flushCompileCache } from 'node:module';
import { dirname, join } from 'node:path';
import {
  createLogger,
  die,
  exitStatusOf,
  type Listener,
  listen,
  runService,
  type Service,
  unusableStatus,
} from '@boxkite/kit';
import { createSidecar, FsObjectStore, hideCredentials, type Session, SessionRegistry } from '@boxkite/sidecar/app';
import { DaemonHost } from '../daemon/daemon-host.ts';
import { findBinaries } from '../runner-binaries.ts';
import { CLIENT_SOCKET, type DaemonRecord, readRecord } from '../serve/daemon-record.ts';
import { layout } from '../serve/places.ts';
import { listenerTls } from '../serve/tls.ts';
import { forgetConfig, readConfig } from './config.ts';
import { soleSandbox } from './sole-sandbox.ts';

/** Descriptor of the first listening socket. */
const FIRST_DESCRIPTOR = 4;

const logger = createLogger(process.stderr, hideCredentials);

function listenersOf(record: DaemonRecord): readonly Listener[] {
  const tls = listenerTls(record);
  return record.listen.map((_address, index) => ({ on: { fd: FIRST_DESCRIPTOR + index }, tls }));
}

/** One line for people. */
function greeting(record: DaemonRecord): string {
  const urls = record.listen.map((address) => `${record.tls ? 'https' : 'http'}://${address}`);
  return `boxkite: the sidecar of one sandbox serves at ${urls.join(' and ')}\n`;
}

/** Files that nobody could store are gone with the sandbox, and the operator is told which. */
async function storeFiles(session: Session): Promise<void> {
  try {
    const { complete, pending } = await session.services.storage.shutdown();
    if (!complete) logger.error({ pending }, 'files of the sandbox were not stored');
  } catch (error) {
    logger.error({ err: error }, 'storing the files of the sandbox');
  }
}

async function start(path: string | undefined): Promise<Service> {
  if (path === undefined) throw new Error('the path of a record is missing');
  const record = readRecord(path);
  const { token, settings, sandbox } = readConfig(dirname(path));
  const { nodeData } = layout('sidecar', record);
  const host = await DaemonHost.open({
    instance: record.instance,
    records: join(nodeData, 'records'),
    objects: await FsObjectStore.open(join(nodeData, 'objects')),
    roots: record.roots,
    runnerSocket: join(record.run, CLIENT_SOCKET),
    settings,
    report: (what, error) => logger.error({ err: error }, what),
  });
  void host.lost.then((what) => die(new Error(`the ${what} is gone`), logger));
  const { handle, session } = await soleSandbox(host.substrate, sandbox);
  const registry = new SessionRegistry();
  if (token !== null) registry.add(token, session);
  const closing = new AbortController();
  const app = createSidecar(registry, {
    logger,
    closing: closing.signal,
    only: session,
    runner: findBinaries().runner,
  });
  const listening = await listen(app, listenersOf(record));
  await host.ready();
  process.stderr.write(greeting(record));
  // Nothing is written while a request waits; a process that is killed has no other moment.
  flushCompileCache();
  return {
    close: async () => {
      closing.abort();
      await listening.close();
      await app.close();
      await storeFiles(session);
      await host.substrate.destroy(handle);
      forgetConfig(record.run);
    },
  };
}

/** One that is not started again needs its token no more. */
async function startOrForget(path: string | undefined): Promise<Service> {
  try {
    return await start(path);
  } catch (error) {
    if (path !== undefined && exitStatusOf(error) === unusableStatus) forgetConfig(dirname(path));
    throw error;
  }
}

const [, , path] = process.argv;
await runService(() => startOrForget(path), logger);
