/** Finds again what an earlier process has left: records that ended, execs that run, and what nobody was told of. */
import { join } from 'node:path';
import type { Effective, ExecRecord, OutputStream } from '@boxkite/protocol';
import type { ListedExec, RunnerAccess } from '@boxkite/runner-client';
import type { KnownSecrets } from '../session/known-secrets.ts';
import { hasCode, namesIn, removeIfThere } from './disk.ts';
import { ExecLog } from './exec-log.ts';
import { ExecStorage, logFileName, type Shelf, STREAMS } from './exec-storage.ts';
import type { Place } from './journal.ts';
import type { FoundEntry } from './journal-entry.ts';
import { type Checkpoint, LogFile } from './log-file.ts';
import { type EndMeta, parseEffective, parseEnd, parseStart, type StartMeta } from './meta.ts';
import { RawStream } from './raw-stream.ts';
import type { RecordStore } from './record-store.ts';
import { RecordedExec } from './recorded-exec.ts';
import { StreamLog } from './stream-log.ts';

/** What recovery works with. */
export interface RecoveryParts {
  readonly shelf: Shelf;
  readonly store: RecordStore;
  readonly secrets: KnownSecrets;
  readonly runner: RunnerAccess;
  /** Of the sandbox itself, for entries that say nothing. */
  readonly effective: Effective;
  /** The life of the runner to which running execs belong; `null` where it is another one than theirs. */
  readonly instance: string | null;
  /** Execs of this sandbox that the runner holds. */
  readonly listed: readonly ListedExec[];
}

interface FoundExec {
  readonly start: StartMeta;
  readonly end: EndMeta | null;
  readonly effective: string;
  readonly place: Place;
}

/**
 * Resolves when all records are known again; execs that run are taken up in the background. The answer is the first
 * sequence number that is free.
 */
export async function recover(parts: RecoveryParts): Promise<number> {
  try {
    return await findAll(parts);
  } catch (error) {
    await closeFiles(parts.store.list().map(({ log }) => log));
    throw error;
  }
}

async function findAll(parts: RecoveryParts): Promise<number> {
  const found = await replay(parts.shelf);
  const files = await logFiles(parts.shelf.directory);
  const measured = new Map<string, Effective>();
  const effectiveOf = ({ effective }: FoundExec): Effective => {
    const known = measured.get(effective) ?? parseEffective(effective) ?? parts.effective;
    measured.set(effective, known);
    return known;
  };
  const ended = [...found.values()].filter((exec) => exec.end !== null).sort((a, b) => endOf(a) - endOf(b));
  for (const exec of ended) addEnded(parts, exec, effectiveOf(exec), files);
  const inRunner = new Map(parts.listed.map((exec) => [exec.exec_id, exec]));
  const goOn: (() => void)[] = [];
  for (const exec of found.values()) {
    if (exec.end !== null) continue;
    const ours = exec.start.instance === parts.instance && inRunner.has(exec.start.runner_exec);
    goOn.push(await addRunning(parts, exec, effectiveOf(exec), files, ours));
    if (ours) inRunner.delete(exec.start.runner_exec);
  }
  for (const name of files) await removeIfThere(join(parts.shelf.directory, name));
  // Only now, since what goes on makes files of the same names.
  for (const start of goOn) start();
  // The others have ended and are kept, or nobody was ever told of them.
  for (const { exec_id } of inRunner.values()) discard(parts.runner, exec_id);
  return Math.max(0, ...[...found.keys()]) + 1;
}

/** What the journal says last of each exec. */
async function replay({ journal }: Shelf): Promise<Map<number, FoundExec>> {
  const found = new Map<number, FoundExec>();
  await journal.replay((entry, segment) => {
    const place = placeOf(entry, segment);
    if (entry.kind === 'end') {
      const end = parseEnd(entry.meta);
      if (end !== null) found.set(end.sequence, { start: end, end, effective: entry.effective, place });
      return;
    }
    const start = parseStart(entry.meta);
    // A start that was moved may stand behind its end.
    if (start === null || (found.get(start.sequence)?.end ?? null) !== null) return;
    found.set(start.sequence, { start, end: null, effective: entry.effective, place });
  });
  return found;
}

function placeOf(entry: FoundEntry, segment: number): Place {
  return { segment, length: entry.length, stdoutAt: entry.stdout.position, stderrAt: entry.stderr.position };
}

function endOf({ start, end }: FoundExec): number {
  return Date.parse(start.started_at) + (end?.record.duration_ms ?? 0);
}

/** Names of the files of logs; those that somebody needs are taken out of it. */
async function logFiles(directory: string): Promise<Set<string>> {
  try {
    const names = await namesIn(directory);
    return new Set(names.filter((name) => name.startsWith('log-')));
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return new Set();
    throw error;
  }
}

function addEnded(parts: RecoveryParts, { end, place }: FoundExec, effective: Effective, files: Set<string>): void {
  if (end === null) return;
  const streams = STREAMS.map((stream) => {
    const { headEnd, tailFrom, end: to } = end[stream];
    return new StreamLog({ head: headEnd, tail: to - tailFrom }, end[stream]);
  }) as [StreamLog, StreamLog];
  const log = new ExecLog(...streams);
  const storage = new ExecStorage(parts.shelf, end, log, effective);
  for (const stream of STREAMS) {
    const { file } = end[stream];
    const name = logFileName(end.sequence, stream);
    if (file === null) {
      log[stream].settle(storage.bytesOf(stream));
    } else if (files.delete(name)) {
      log[stream].useFile(LogFile.finished(join(parts.shelf.directory, name), file), null);
      log[stream].settle(log[stream].file);
    } else {
      log[stream].forget();
    }
  }
  storage.adopt(place, end);
  const record: ExecRecord = { ...end.record, effective };
  const exec = new RecordedExec({ meta: end, effective, log, storage, raw: null, onEnd: nothing });
  exec.settle(record);
  parts.store.add(exec);
  parts.store.ended(exec);
}

/** The answer takes the exec up, or ends it as lost. */
async function addRunning(
  parts: RecoveryParts,
  found: FoundExec,
  effective: Effective,
  files: Set<string>,
  ours: boolean,
): Promise<() => void> {
  const { start } = found;
  const known = parts.secrets.find(start.known);
  const stdout = await openLog(parts.shelf, start, 'stdout', files);
  const open = {
    stdout,
    stderr: await openLog(parts.shelf, start, 'stderr', files).catch(async (error: unknown) => {
      await stdout.file?.close();
      throw error;
    }),
  };
  const log = new ExecLog(open.stdout.log, open.stderr.log);
  const storage = new ExecStorage(parts.shelf, start, log, effective);
  storage.adopt(found.place, null);
  for (const stream of STREAMS) {
    const { file, checkpoint } = open[stream];
    if (file !== null && checkpoint !== null) storage.adoptFile(stream, file, checkpoint);
  }
  const set = known ?? parts.secrets.none;
  parts.secrets.hold(set);
  const exec = new RecordedExec({
    meta: start,
    effective,
    log,
    storage,
    raw: {
      stdout: new RawStream(set.known, open.stdout.checkpoint ?? undefined),
      stderr: new RawStream(set.known, open.stderr.checkpoint ?? undefined),
    },
    onEnd: (ended) => {
      parts.store.ended(ended);
      parts.secrets.release(set);
    },
  });
  parts.store.add(exec);
  // Without the values nothing more of it may be shown.
  if (ours && known !== null) return () => void takeUp(parts.runner, exec);
  return () => exec.lose({ end: 'lost', reason: null });
}

/** The log of a stream as far as it was written, or an empty one. */
async function openLog(
  shelf: Shelf,
  start: StartMeta,
  stream: OutputStream,
  files: Set<string>,
): Promise<{ readonly log: StreamLog; readonly file: LogFile | null; readonly checkpoint: Checkpoint | null }> {
  const name = logFileName(start.sequence, stream);
  const opened = files.has(name) ? await LogFile.open(join(shelf.directory, name)) : null;
  if (opened === null) return { log: new StreamLog(start.window), file: null, checkpoint: null };
  files.delete(name);
  const { file, checkpoint } = opened;
  return { log: new StreamLog({ head: file.head, tail: file.tail }, checkpoint, file), file, checkpoint };
}

/** Nobody else knows of what was opened before a failure. */
async function closeFiles(logs: readonly ExecLog[]): Promise<void> {
  const open = logs.flatMap((log) => STREAMS.flatMap((stream) => log[stream].file ?? []));
  await Promise.allSettled(open.map((file) => file.close()));
}

/** Goes on from what the runner was not told to forget. */
async function takeUp(runner: RunnerAccess, exec: RecordedExec): Promise<void> {
  try {
    exec.attach(await runner.call((client) => client.attach(exec.meta.runner_exec, 'caller')));
  } catch {
    // The runner, or the exec with its sandbox, has gone meanwhile.
    exec.lose({ end: 'lost', reason: null });
  }
}

/** Kills what is still there of an exec, and lets the runner forget it. */
function discard(runner: RunnerAccess, runnerExec: string): void {
  runner.call((client) => client.attach(runnerExec)).then((execution) => execution.discard(), nothing);
}

function nothing(): void {
  // It is gone already.
}
