import { PayloadReader } from './payload.ts';

/** A change below a watched directory. */
export interface FileEvent {
  /** `overflow`: events were lost, look again. `modified` may come several times for one write. */
  readonly kind: 'created' | 'modified' | 'removed' | 'moved_from' | 'moved_to' | 'attributes' | 'overflow';
  readonly directory: boolean;
  /** The same number on both halves of one move, else 0. */
  readonly cookie: number;
  /** Relative to the watched directory; empty for itself. */
  readonly path: string;
  readonly bytes: Uint8Array;
}

const kinds = ['created', 'modified', 'removed', 'moved_from', 'moved_to', 'attributes', 'overflow'] as const;

/** Reads all events of a batch. */
export function* decodeEvents(batch: Uint8Array): Generator<FileEvent> {
  const reader = new PayloadReader(batch);
  while (reader.more) {
    const kind = kinds[reader.u8() - 1];
    if (kind === undefined) throw new RangeError('an unknown event');
    const directory = reader.u8() === 1;
    const cookie = reader.u32();
    const bytes = reader.bytes();
    yield { kind, directory, cookie, path: bytes.toString(), bytes };
  }
}
