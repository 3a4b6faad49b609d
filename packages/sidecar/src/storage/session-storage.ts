/** Files of a session in an object store: restored when a use begins, stored while it lasts and when somebody asks. */
import { BoxkiteError } from '@boxkite/protocol';
import type { RunnerFiles } from '@boxkite/runner-client';
import { byBytes, type ObjectStore } from '@boxkite/storage';
import { z } from 'zod';
import type { Configuration, Configured } from '../session/configuration.ts';
import type { SessionCore, SessionPart } from '../session/part.ts';
import { checkPrefix, checkSegment, legacyPrefix, manifestKey, namespaces, placeOf, storedPathOf } from './layout.ts';
import { PromptStore } from './prompt-store.ts';
import { type Restored, type RestoreParts, restore, restoreLegacy, restoreUploads } from './restore.ts';
import { StorageUse } from './storage-use.ts';
import { StoredManifest } from './stored-manifest.ts';
import type { Pending } from './sync-run.ts';

/** Why a file is not stored, and what was left out on purpose. */
export interface FlushReport {
  /** `null`: nothing is stored in this use. */
  readonly storage_prefix: string | null;
  readonly complete: boolean;
  readonly pending: readonly Pending[];
  /** Code of what ended it before all was tried: `storage_full`, `storage_unavailable`, `timeout`; else `null`. */
  readonly failure: string | null;
  /** Absolute paths of pipes, sockets and devices, which have no content. */
  readonly skipped: readonly string[];
  /** Absolute paths of directories that the deployment leaves out. */
  readonly ignored: readonly string[];
}

/** A flush that was checked against the store. */
export interface ConfirmedFlush extends FlushReport {
  /** Keys of the files that are stored as they are now, below the prefix, in byte order. */
  readonly storage_keys: readonly string[];
  /** Key of the manifest below the prefix; `null` where there is none. */
  readonly manifest_key: string | null;
}

/** What a use began with. */
export interface RestoreReport {
  /** Stored paths, `namespace/relative`. */
  readonly files: readonly string[];
  /** Absolute paths of what the store did not have as it was stored. */
  readonly missing: readonly string[];
  /** Ids of uploads that the store has nothing of. */
  readonly unknownUploads: readonly string[];
}

/** A file that can be had from the store. */
export interface Presented {
  readonly path: string;
  readonly storage_key: string;
}

const NOTHING: FlushReport = {
  storage_prefix: null,
  complete: true,
  pending: [],
  failure: null,
  skipped: [],
  ignored: [],
};
const NO_RESTORE: RestoreReport = { files: [], missing: [], unknownUploads: [] };
/** Of the state that is kept over a restart of this process. */
const MOST_MISSING = 500;
const MOST_MISSING_BYTES = 64 * 1024;
/** The supervisor ends a process that takes longer to stop. */
const MOST_SHUTDOWN_MS = 15_000;
/** How long the last use of the same prefix may take to let go of it. */
const MOST_SETTLE_MS = 5_000;

const keptSchema = z.object({ generation: z.number(), missing: z.array(z.string()) });

/** See above. */
export class SessionStorage implements SessionPart {
  readonly #core: SessionCore;
  readonly #store: ObjectStore | null;
  #use: StorageUse | null = null;
  #generation: number | null = null;
  #restored: RestoreReport = NO_RESTORE;
  /** What is being brought into the sandbox. */
  readonly #bringing = new Set<Bringing>();
  /** Between two uses nobody brings anything. */
  #isEnded = false;

  constructor(core: SessionCore) {
    this.#core = core;
    this.#store = core.objects === null ? null : new PromptStore(core.objects);
    const configured = core.configured();
    const found = keptSchema.safeParse(core.found('storage'));
    // Of a use that was ended and not begun again the files are gone: storing that would remove them from the store.
    if (configured?.storage_prefix == null || !found.success || found.data.generation !== configured.generation) return;
    this.#generation = configured.generation;
    this.#use = this.#open(configured.storage_prefix, found.data.missing);
  }

  /** The prefix that a configuration asks for, by itself or by a work item of an organization; `null`: none. */
  prefixOf(asked: {
    readonly storage_prefix?: string | null | undefined;
    readonly organization_id?: string | null | undefined;
    readonly work_item_id?: string | null | undefined;
  }): string | null {
    if (asked.storage_prefix) return asked.storage_prefix;
    const { organization_id: organization, work_item_id: item } = asked;
    if (this.#store === null || !organization || !item) return null;
    return `work-items/${checkSegment(organization, 'organization_id')}/${checkSegment(item, 'work_item_id')}`;
  }

  /** What `/health` says. */
  get kind(): string {
    return this.#store?.kind ?? 'none';
  }

  /** Of the present use; `null`: nothing is stored. */
  get prefix(): string | null {
    return this.#use?.prefix ?? null;
  }

  /** What the present use began with. */
  get restored(): RestoreReport {
    return this.#restored;
  }

  kept(): unknown {
    if (this.#generation === null || this.#use === null) return undefined;
    return { generation: this.#generation, missing: this.#use.missing };
  }

  /** Errors: `unsupported` where a use asks for a store that is not there, `invalid_request`. */
  check({ storage_prefix, upload_file_ids, organization_id }: Configuration): void {
    if (storage_prefix !== null) {
      this.#needed('storage_prefix');
      checkPrefix(storage_prefix);
    }
    this.#legacyUploads(organization_id, upload_file_ids);
  }

  async reset(): Promise<void> {
    this.#isEnded = true;
    const gone = new BoxkiteError('generation_gone', 'the sandbox is configured anew');
    // Nothing is written after the wipe.
    await this.#stopBringing(gone);
    this.#restored = NO_RESTORE;
    const use = this.#use;
    if (use === null) return;
    use.end(gone);
    this.#generation = null;
    // Before the first file goes: the next process must not take a wiped sandbox for what is to be stored.
    await this.#core.save();
  }

  async begin(configured: Configured): Promise<void> {
    const { storage_prefix: prefix, upload_file_ids, organization_id, generation } = configured;
    const before = this.#use;
    if (prefix === null) this.#use = null;
    const legacy = this.#legacyUploads(organization_id, upload_file_ids);
    this.#isEnded = false;
    if (this.#store === null || (prefix === null && legacy.length === 0)) return;
    if (before !== null && before.prefix === prefix) await before.settled(MOST_SETTLE_MS);
    const { own, manifest, report } = await this.#restore(this.#store, prefix, legacy);
    if (prefix !== null && manifest !== null && own !== null) {
      const { missing, files: signatures } = own;
      if (missing.length > MOST_MISSING || Buffer.byteLength(missing.join('')) > MOST_MISSING_BYTES) {
        throw new BoxkiteError('storage_damaged', `${missing.length} files of the prefix are not what was stored`);
      }
      this.#use = this.#open(prefix, missing, { manifest, signatures });
      this.#generation = generation;
      // Uploads of older clients are not below the prefix yet.
      if (legacy.length > 0) this.#use.changed();
    }
    this.#restored = report;
  }

  close(): void {
    const stops = new BoxkiteError('state_unavailable', 'the process that holds the sandbox stops');
    this.#use?.end(stops);
    void this.#stopBringing(stops);
  }

  /** A file was written: it is stored within the short interval. */
  written(): void {
    this.#use?.changed();
  }

  /** Stores all that the sandbox has. Never fails for the store's sake: what is not stored is in the report. */
  async flush(): Promise<FlushReport> {
    return (await this.#use?.flush()) ?? NOTHING;
  }

  /** The same, and then asks the store whether it has it all. Errors: `storage_unavailable` where it can't be asked. */
  async confirmed(): Promise<ConfirmedFlush> {
    const use = this.#use;
    if (use === null) return { ...NOTHING, storage_keys: [], manifest_key: null };
    let report = await use.flush();
    if (await use.forgetLost()) report = await use.flush();
    return { ...report, storage_keys: use.storedKeys(), manifest_key: use.hasManifest ? manifestKey : null };
  }

  /** Flushes within the deployment's deadline; what was not stored by then is in the report. */
  async shutdown(): Promise<FlushReport> {
    const most = Math.min(this.#core.settings.sync.shutdownSeconds * 1000, MOST_SHUTDOWN_MS);
    return (await this.#use?.flush(AbortSignal.timeout(most))) ?? NOTHING;
  }

  /**
   * Stores these files now, by absolute paths of the roots that are stored. Answers those that the store has as they are.
   * Errors: `bad_request` without a prefix or for another path; `storage_unavailable`, `storage_full`.
   */
  async present(paths: readonly string[]): Promise<readonly Presented[]> {
    const use = this.#use;
    if (use === null) {
      throw new BoxkiteError('bad_request', 'no storage prefix is configured, so that nothing can be presented', {
        hint: 'Configure the sandbox with a `storage_prefix`.',
      });
    }
    const wanted = paths.map((path) => {
      const stored = storedPathOf(path);
      if (stored !== null) return { path, stored };
      const roots = namespaces.map(({ root }) => root).join(', ');
      throw new BoxkiteError('bad_request', `${path} is not below ${roots}`, { details: { path } });
    });
    const keys = await use.present(wanted.map(({ stored }) => stored));
    return wanted.flatMap(({ path, stored }) => {
      const key = keys.get(stored);
      return key === undefined ? [] : [{ path, storage_key: `${use.prefix}/${key}` }];
    });
  }

  /** Brings the uploads of the prefix, and those of older clients, into the sandbox once more. Answers their stored paths. */
  async prefetch(organization: string | null, uploadIds: readonly string[]): Promise<RestoreReport> {
    const uploads = this.#legacyUploads(organization ?? this.#core.configured()?.organization_id ?? null, uploadIds);
    const use = this.#use;
    if (this.#store === null || (use === null && uploads.length === 0)) return NO_RESTORE;
    const [own, legacy] = await this.#with(this.#store, use, async (parts) => [
      use === null ? null : await restoreUploads(parts),
      await legacyOf(parts, uploads),
    ]);
    if (own !== null) await use?.adopt(own);
    if (legacy.length > 0) use?.changed();
    return reportOf(own, legacy);
  }

  async #restore(store: ObjectStore, prefix: string | null, legacy: readonly LegacyUpload[]) {
    return await this.#with(store, { prefix: prefix ?? '' }, async (parts) => {
      const { signal } = parts;
      const manifest = prefix === null ? null : await StoredManifest.load(store, prefix, signal);
      const own = manifest === null ? null : await restore(parts, manifest);
      if (manifest !== null && own !== null && (own.changed.length > 0 || !manifest.exists)) {
        await manifest.apply({ set: own.changed, remove: [] }, signal);
        await manifest.settle(signal);
      }
      return { manifest, own, report: reportOf(own, await legacyOf(parts, legacy)) };
    });
  }

  async #with<T>(
    store: ObjectStore,
    of: { readonly prefix: string; readonly signal?: AbortSignal } | null,
    run: (parts: RestoreParts) => Promise<T>,
  ): Promise<T> {
    if (this.#isEnded) throw new BoxkiteError('generation_gone', 'the sandbox is being configured anew');
    const ending = new AbortController();
    const { prefix = '', signal: use } = of ?? {};
    const signal = use === undefined ? ending.signal : AbortSignal.any([use, ending.signal]);
    const provision = this.#core.provision();
    const running = run({ store, prefix, files: this.#core.files(), provision, signal });
    const bringing = { provision, ending, ended: running.then(ignore, ignore) };
    this.#bringing.add(bringing);
    try {
      return await running;
    } finally {
      this.#bringing.delete(bringing);
      provision.close();
    }
  }

  async #stopBringing(reason: BoxkiteError): Promise<void> {
    for (const { provision, ending } of this.#bringing) {
      ending.abort(reason);
      provision.close(reason);
    }
    await Promise.all([...this.#bringing].map(({ ended }) => ended));
  }

  #open(
    prefix: string,
    missing: readonly string[],
    known?: { readonly manifest: StoredManifest; readonly signatures: ReadonlyMap<string, string> },
  ): StorageUse {
    const store = this.#needed('storage_prefix');
    const { effective, settings } = this.#core;
    const mostBytes = effective.workspace.bytes;
    const parts = { store, prefix, missing, mostBytes, files: this.#core.files(), settings: settings.sync };
    return new StorageUse(parts, known);
  }

  #legacyUploads(organization: string | null, ids: readonly string[]): readonly LegacyUpload[] {
    if (ids.length === 0) return [];
    this.#needed('upload_file_ids');
    if (organization === null) {
      throw new BoxkiteError('invalid_request', 'upload_file_ids belong to an organization', {
        hint: 'Send organization_id as well.',
        details: { field: 'organization_id' },
      });
    }
    return ids.map((id) => ({ id, prefix: legacyPrefix(organization, id) }));
  }

  #needed(field: string): ObjectStore {
    if (this.#store !== null) return this.#store;
    throw new BoxkiteError('unsupported', `${field} needs an object store, which this sandbox does not have`, {
      hint: 'Leave the field out, or start the sidecar with an object store.',
      details: { field },
    });
  }
}

interface Bringing {
  readonly provision: RunnerFiles;
  readonly ending: AbortController;
  readonly ended: Promise<void>;
}

function ignore(): void {
  // Whoever has asked for it is told.
}

/** An upload of an older client, in a place of its own. */
interface LegacyUpload {
  readonly id: string;
  readonly prefix: string;
}

async function legacyOf(
  parts: RestoreParts,
  uploads: readonly LegacyUpload[],
): Promise<readonly (Restored & { readonly id: string })[]> {
  const all: (Restored & { readonly id: string })[] = [];
  for (const { id, prefix } of uploads) {
    const { files, changed, missing } = await restoreLegacy(parts, prefix);
    all.push({ id, files, changed, missing });
  }
  return all;
}

function reportOf(own: Restored | null, legacy: readonly (Restored & { readonly id: string })[]): RestoreReport {
  const all = [...(own === null ? [] : [own]), ...legacy];
  return {
    files: all.flatMap(({ files }) => [...files.keys()]).sort(byBytes),
    missing: all.flatMap(({ missing }) => missing.map((path) => placeOf(path).shown)).sort(byBytes),
    unknownUploads: legacy.flatMap(({ id, files, missing }) => (files.size + missing.length === 0 ? [id] : [])),
  };
}
