/** Sandboxes on this Linux machine in the runner of the daemon: they outlive a restart of this process. */
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type {
  Binding,
  Endpoint,
  ObservedSandbox,
  SandboxHandle,
  Shape,
  Substrate,
  SubstrateEvent,
  SubstrateSpec,
} from '@boxkite/manager';
import type { SandboxUsage } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type {
  OpenedSandbox,
  OpenRequest,
  RunnerAccess,
  RunnerListing,
  SandboxId,
  WorkspaceId,
} from '@boxkite/runner-client';
import {
  listText,
  type ObjectStore,
  programsOf,
  Session,
  type SessionRegistry,
  type SidecarSettings,
} from '@boxkite/sidecar/app';
import { EventHub } from '../event-hub.ts';
import { openRequest } from '../spec.ts';
import { isNotesKey, NotesBlob, notesKey } from './notes-blob.ts';
import { decodeState, type SandboxIdentity, SandboxState } from './sandbox-state.ts';
import type { BlobStore } from './supervise-control.ts';
import { workspaceId, workspaceName } from './workspace-id.ts';

/** What a substrate is made of. */
export interface DaemonSubstrateParts {
  /** Of this run of the runner: tells its sandboxes from those of another run. */
  readonly instance: string;
  readonly runner: RunnerAccess;
  readonly blobs: BlobStore;
  /** The sandboxes' sessions, by their tokens. */
  readonly registry: SessionRegistry;
  /** Private directory of the sandboxes' records; it is made where it is missing. */
  readonly records: string;
  /** Names of root file systems, in the order of the runner's list. */
  readonly roots: readonly string[];
  /** Of every session. Default: a daemon's. */
  readonly settings?: SidecarSettings | undefined;
  /** Where sessions keep files that outlive them. Default: nowhere. */
  readonly objects?: ObjectStore | undefined;
  /** Told of what could not be put in order. */
  readonly report: (what: string, error: unknown, sandbox: string | null) => void;
}

type GoneReason = 'destroyed' | 'failed';

interface Live {
  /** `null` where it could not be opened: all of it stays for the next process, which tries again. */
  readonly session: Session | null;
  readonly state: SandboxState;
  readonly notes: NotesBlob;
}

/** One sandbox of the runner. */
interface Entry {
  readonly handle: SandboxHandle;
  /** The sandbox's id for ever; of one that is known by nothing else its handle. */
  readonly id: string;
  readonly sandbox: SandboxId;
  readonly disk: boolean;
  /** `null` for one that no blob describes: it was made just before an earlier Node ended, and nobody was told of it. */
  readonly live: Live | null;
  state: 'ready' | 'stopping';
  gone: Promise<void> | null;
}

const TOKEN_BYTES = 32;
/** Session directories are looked at together; each holds a few open files at a time. */
const RECOVERED_AT_ONCE = 64;

/** What the runner has of a sandbox that was just made. */
const NOTHING_RUNS: RunnerListing = { sandboxes: [], execs: [], workspaces: [] };

/**
 * `Substrate` over one runner that is shared by all. It tells nothing of the runner's end, which is the end of this process
 * too: what was lost is found out by the next one. A connection that is lost while the runner lives changes no state.
 */
export class DaemonSubstrate implements Substrate {
  readonly #parts: DaemonSubstrateParts;
  readonly #entries = new Map<SandboxHandle, Entry>();
  readonly #events = new EventHub<SubstrateEvent>();

  private constructor(parts: DaemonSubstrateParts) {
    this.#parts = parts;
  }

  /** Finds every sandbox again that an earlier Node had. Errors: `state_unavailable`, `runner_lost`. */
  static async open(parts: DaemonSubstrateParts): Promise<DaemonSubstrate> {
    const substrate = new DaemonSubstrate(parts);
    await mkdir(parts.records, { recursive: true, mode: 0o700 });
    const [blobs, listing] = await Promise.all([parts.blobs.list(), parts.runner.call((client) => client.list())]);
    await substrate.#recover(blobs, listing);
    return substrate;
  }

  async start(spec: SubstrateSpec, signal?: AbortSignal): Promise<SandboxHandle> {
    const request = this.#requestOf(spec);
    const opened = await this.#parts.runner.call((client) => client.openSandbox(request, signal));
    const reopened = spec.reopen === true;
    try {
      const entry = await this.#enter(spec, opened);
      if (signal?.aborted === true) {
        throw new BoxkiteError('aborted', 'the sandbox was destroyed while it was made', { cause: signal.reason });
      }
      this.#events.emit({ type: 'ready', handle: entry.handle });
      return entry.handle;
    } catch (error) {
      await this.#undo(opened.sandbox, spec.id, reopened);
      throw error;
    }
  }

  /** A start takes a sandbox that the runner has made ahead by itself. */
  claim(_shape: Shape, _binding: Binding): Promise<null> {
    return Promise.resolve(null);
  }

  async endpoint(handle: SandboxHandle): Promise<Endpoint> {
    return { kind: 'port', port: this.session(handle) };
  }

  /** Errors: `not_found`; `state_unavailable` where this process could not open it. */
  session(handle: SandboxHandle): Session {
    const live = this.#entries.get(handle)?.live;
    if (live?.session === null)
      throw new BoxkiteError('state_unavailable', 'what an earlier process left of the sandbox could not be opened');
    if (live != null) return live.session;
    throw new BoxkiteError('not_found', 'there is no such sandbox', { details: { kind: 'sandbox' } });
  }

  async destroy(handle: SandboxHandle): Promise<void> {
    const entry = this.#entries.get(handle);
    if (entry === undefined) return;
    await this.#remove(entry, 'destroyed', false);
  }

  async stop(handle: SandboxHandle): Promise<void> {
    const entry = this.#entries.get(handle);
    if (entry === undefined) throw new BoxkiteError('not_found', 'there is no such sandbox');
    if (!entry.disk) throw new BoxkiteError('workspace_not_kept', 'the files of this sandbox are in memory');
    await this.#remove(entry, 'destroyed', true);
  }

  async discard(id: string): Promise<void> {
    const workspace = workspaceId(id);
    await this.#parts.runner.call((client) => client.removeWorkspace(workspace));
  }

  async workspaces(): Promise<readonly string[]> {
    const { workspaces } = await this.#parts.runner.call((client) => client.list());
    return workspaces.map(workspaceName);
  }

  async list(options: { readonly usage?: boolean } = {}): Promise<readonly ObservedSandbox[]> {
    const usage = options.usage === true ? await this.#usage() : null;
    return [...this.#entries.values()].map(({ handle, id, sandbox, state }) => ({
      handle,
      id,
      state,
      usage: usage?.get(sandbox) ?? null,
    }));
  }

  watch(signal: AbortSignal): AsyncIterable<SubstrateEvent> {
    return this.#events.watch(signal);
  }

  /** Lets go of every sandbox, all of which go on. */
  async close(): Promise<void> {
    const sessions = [...this.#entries.values()].flatMap(({ live }) => live?.session ?? []);
    await Promise.all(sessions.map((session) => session.close()));
  }

  /** Errors: `invalid_request`. */
  #requestOf(spec: SubstrateSpec): OpenRequest {
    const root = spec.rootfs === undefined ? 0 : this.#parts.roots.indexOf(spec.rootfs);
    if (root < 0) {
      throw new BoxkiteError('invalid_request', `there is no root file system ${spec.rootfs}`, {
        hint: `Use one that the daemon was started with: ${this.#parts.roots.join(', ')}.`,
        details: { field: 'rootfs', roots: this.#parts.roots },
      });
    }
    const sandbox = listText(spec.sandbox_allowed_commands);
    // Checked before anything is made; what the kernel is to enforce is in force with the sandbox, or there is none.
    const programs = programsOf({ deployment: this.#parts.settings?.allowedCommands ?? null, sandbox });
    const request = { ...openRequest(spec), root, programs: programs === null ? undefined : { programs } };
    if (spec.workspace !== 'disk') return request;
    return { ...request, workspace: { kind: 'disk', id: workspaceId(spec.id), reopen: spec.reopen === true } };
  }

  async #enter(spec: SubstrateSpec, { sandbox, effective }: OpenedSandbox): Promise<Entry> {
    const token = randomBytes(TOKEN_BYTES).toString('base64url');
    const allowed = listText(spec.sandbox_allowed_commands);
    const identity = { id: spec.id, sandbox, disk: spec.workspace === 'disk', token, effective, allowed };
    // The session puts its first state, and with it this identity, before it is open.
    const { blobs } = this.#parts;
    const notes = new NotesBlob(blobs, spec.id, null);
    return this.#open(new SandboxState(blobs, identity, null), notes, NOTHING_RUNS);
  }

  async #open(state: SandboxState, notes: NotesBlob, listing: RunnerListing): Promise<Entry> {
    const { id, sandbox, effective, token, allowed } = state.identity;
    const handle = this.#handle(sandbox);
    const session = await Session.open({
      id,
      sandbox,
      effective,
      runner: this.#parts.runner,
      allowedCommands: allowed,
      directory: this.#recordsOf(id),
      state,
      scratch: notes,
      settings: this.#parts.settings,
      objects: this.#parts.objects,
      listing,
      destroy: () => this.destroy(handle),
    });
    this.#parts.registry.add(token, session);
    return this.#enterLive({ session, state, notes });
  }

  #enterLive(live: Live): Entry {
    const { id, sandbox, disk } = live.state.identity;
    const entry: Entry = { handle: this.#handle(sandbox), id, sandbox, disk, live, state: 'ready', gone: null };
    this.#entries.set(entry.handle, entry);
    return entry;
  }

  #recordsOf(id: string): string {
    return join(this.#parts.records, id);
  }

  #handle(sandbox: SandboxId): SandboxHandle {
    return `${this.#parts.instance}:${sandbox}` as SandboxHandle;
  }

  /** Leaves nothing of a start that failed but a workspace that was there before. */
  async #undo(sandbox: SandboxId, id: string, keep: boolean): Promise<void> {
    const entry = this.#entries.get(this.#handle(sandbox));
    if (entry !== undefined) {
      await this.#remove(entry, 'failed', keep);
      return;
    }
    try {
      await this.#parts.runner.call((client) => client.closeSandbox(sandbox, { keep }));
      await this.#parts.blobs.delete(id);
    } catch (error) {
      this.#parts.report('the end of a sandbox whose start failed', error, id);
    }
  }

  /** Takes a sandbox away once; every caller waits for the same end. */
  #remove(entry: Entry, reason: GoneReason, keep: boolean): Promise<void> {
    entry.gone ??= this.#takeAway(entry, reason, keep);
    return entry.gone;
  }

  async #takeAway(entry: Entry, reason: GoneReason, keep: boolean): Promise<void> {
    entry.state = 'stopping';
    const { handle, sandbox, live } = entry;
    try {
      await this.#parts.runner.call((client) => client.closeSandbox(sandbox, { keep }));
      await live?.notes.remove();
      await live?.state.remove();
      if (live?.session === null) await rm(this.#recordsOf(entry.id), { recursive: true, force: true });
      else await live?.session.end();
    } catch (error) {
      // It may still be there: it stays listed, and the next call tries again.
      entry.gone = null;
      throw error;
    }
    if (live !== null) this.#parts.registry.remove(live.state.identity.token);
    this.#entries.delete(handle);
    this.#events.emit({ type: 'gone', handle, reason });
  }

  async #usage(): Promise<ReadonlyMap<SandboxId, SandboxUsage>> {
    const { sandboxes, execs } = await this.#parts.runner.call((client) => client.list({ usage: true }));
    const running = new Map<SandboxId, number>();
    for (const { sandbox, state } of execs) {
      if (state !== 'ended') running.set(sandbox, (running.get(sandbox) ?? 0) + 1);
    }
    return new Map(
      sandboxes.map(({ sandbox, usage: { memoryBytes, cpuUs, processes } }) => [
        sandbox,
        {
          memory_bytes: memoryBytes,
          cpu_ms: cpuUs === null ? null : Math.round(cpuUs / 1000),
          processes,
          execs: running.get(sandbox) ?? 0,
        },
      ]),
    );
  }

  async #recover(blobs: ReadonlyMap<string, Uint8Array>, listing: RunnerListing): Promise<void> {
    const present = new Map(listing.sandboxes.map((listed) => [listed.sandbox, listed]));
    const states: SandboxState[] = [];
    for (const [key, blob] of blobs) {
      if (isNotesKey(key)) continue;
      const state = this.#decode(key, blob);
      if (state === null) continue;
      const listed = present.get(state.identity.sandbox);
      if (listed !== undefined && !listed.closing) states.push(state);
      // Its end was under way; what is left of it is ended below.
      else await this.#parts.blobs.delete(key);
    }
    for (let at = 0; at < states.length; at += RECOVERED_AT_ONCE) {
      const some = states.slice(at, at + RECOVERED_AT_ONCE);
      await Promise.all(some.map((state) => this.#reopen(state, this.#notesOf(state.identity, blobs), listing)));
    }
    for (const { sandbox, workspace } of listing.sandboxes) this.#enterLeftover(sandbox, workspace);
    const known = new Set(states.map(({ identity }) => identity.id));
    await this.#removeNotes(blobs, known);
    await this.#removeRecords(known);
  }

  /** One that can't be opened is no reason for the others to be out of reach, nor for its end. Errors: `runner_lost`. */
  async #reopen(state: SandboxState, notes: NotesBlob, listing: RunnerListing): Promise<void> {
    try {
      await this.#open(state, notes, listing);
    } catch (error) {
      if (error instanceof BoxkiteError && error.code === 'runner_lost') throw error;
      this.#parts.report('the records of a sandbox', error, state.identity.id);
      this.#enterLive({ session: null, state, notes });
    }
  }

  #notesOf({ id }: SandboxIdentity, blobs: ReadonlyMap<string, Uint8Array>): NotesBlob {
    return new NotesBlob(this.#parts.blobs, id, blobs.get(notesKey(id)) ?? null);
  }

  /** Notes of sandboxes whose end was under way. */
  async #removeNotes(blobs: ReadonlyMap<string, Uint8Array>, known: ReadonlySet<string>): Promise<void> {
    const kept = new Set([...known].map(notesKey));
    for (const key of blobs.keys()) if (isNotesKey(key) && !kept.has(key)) await this.#parts.blobs.delete(key);
  }

  /** A blob that can't be read is no reason for the others to be lost. */
  #decode(key: string, blob: Uint8Array): SandboxState | null {
    try {
      const { identity, session } = decodeState(blob);
      return new SandboxState(this.#parts.blobs, identity, session);
    } catch (error) {
      this.#parts.report('the state of a sandbox', error, key);
      return null;
    }
  }

  /** What no blob describes can only be ended. */
  #enterLeftover(sandbox: SandboxId, workspace: WorkspaceId | null): void {
    const handle = this.#handle(sandbox);
    if (this.#entries.has(handle)) return;
    const id = workspace === null ? handle : workspaceName(workspace);
    this.#entries.set(handle, {
      handle,
      id,
      sandbox,
      disk: workspace !== null,
      live: null,
      state: 'stopping',
      gone: null,
    });
  }

  /** Records of sandboxes that ended with an earlier runner, or while no Node was there. */
  async #removeRecords(known: ReadonlySet<string>): Promise<void> {
    for (const name of await readdir(this.#parts.records)) {
      if (known.has(name)) continue;
      const removed = rm(this.#recordsOf(name), { recursive: true, force: true });
      // The next process tries again.
      await removed.catch((error: unknown) => this.#parts.report('records that nobody needs', error, name));
    }
  }
}
