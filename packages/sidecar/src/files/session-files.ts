/** Files of the present use, with what belongs to showing and keeping them. */
import type { RunnerFiles } from '@boxkite/runner-client';
import type { SessionCore, SessionPart } from '../session/part.ts';
import type { Redaction } from '../session/redaction.ts';
import type { SidecarSettings } from '../settings.ts';
import { EditTurns } from './edit-turns.ts';

/** Where files are kept beyond the sandbox. */
export interface FileStore {
  /** `null`: nothing is kept. */
  readonly prefix: string | null;
  /** Stores these now, and says which of them are stored. */
  present(paths: readonly string[]): Promise<readonly { readonly path: string; readonly storage_key: string }[]>;
  /** A file was written here. */
  written(): void;
}

/** What the routes of files work with. */
export class SessionFiles implements SessionPart {
  readonly #core: SessionCore;
  readonly store: FileStore;
  readonly edits = new EditTurns();

  constructor(core: SessionCore, store: FileStore) {
    this.#core = core;
    this.store = store;
  }

  /** Of the generation in force now; of a later one it is closed. */
  get present(): RunnerFiles {
    return this.#core.files();
  }

  get redaction(): Redaction {
    return this.#core.redaction;
  }

  get settings(): SidecarSettings {
    return this.#core.settings;
  }

  reset(): void {
    // The session closes the connection, and removes the files.
  }
}
