/** Where the files of a session are in its sandbox, in a store, and in what is said of them. */
import { createHash } from 'node:crypto';
import { BoxkiteError } from '@boxkite/protocol';
import { bytesOfPath, isKey, isSegment, type ManifestEntry, PRIVATE_SEGMENT, textOfPath } from '@boxkite/storage';

/** A root of the sandbox whose files are stored. */
export interface Namespace {
  readonly name: 'workspace' | 'outputs' | 'uploads';
  readonly root: string;
}

/** Uploads are put into the store by others too; commands only read them. */
export const uploads: Namespace = { name: 'uploads', root: '/mnt/user-data/uploads' };
const workspace: Namespace = { name: 'workspace', root: '/workspace' };
const outputs: Namespace = { name: 'outputs', root: '/mnt/user-data/outputs' };

/** All that is stored. */
export const namespaces: readonly Namespace[] = [workspace, outputs, uploads];

/** Bytes of a prefix: what is left of a key has room for most paths. */
const MOST_PREFIX_BYTES = 512;
/** Below a prefix. */
export const manifestKey = `${PRIVATE_SEGMENT}/manifest.ndjson`;
/** What is about to replace objects of the manifest. */
export const announcedKey = `${PRIVATE_SEGMENT}/announced.ndjson`;

/** Errors: `invalid_request`. */
export function checkPrefix(prefix: string): void {
  const isRight =
    isKey(prefix) && Buffer.byteLength(prefix) <= MOST_PREFIX_BYTES && !prefix.split('/').includes(PRIVATE_SEGMENT);
  if (isRight) return;
  throw new BoxkiteError('invalid_request', 'storage_prefix is to be names with single slashes between them', {
    hint: `Use at most ${MOST_PREFIX_BYTES} bytes, no slash at either end, no \`.\`, \`..\` or \`${PRIVATE_SEGMENT}\` as a name, and no control characters.`,
    details: { field: 'storage_prefix' },
  });
}

/** What is said to be `field` as one part of a key. Errors: `invalid_request`. */
export function checkSegment(text: string, field: string): string {
  if (isSegment(text) && text !== PRIVATE_SEGMENT) return text;
  throw new BoxkiteError('invalid_request', `${field} can not be a part of a key of the object store`, {
    hint: 'Use a name without slashes, backslashes and control characters, of at most 254 bytes.',
    details: { field },
  });
}

/** Where older clients put uploads: a place of its own for each id. */
export function legacyPrefix(organization: string, uploadId: string): string {
  return `uploads/${checkSegment(organization, 'organization_id')}/${checkSegment(uploadId, 'upload_file_ids')}/`;
}

/** The stored path of a name below a namespace's root. */
export function storedPath({ name }: Namespace, relative: Uint8Array): string {
  return textOfPath(Buffer.concat([Buffer.from(`${name}/`), relative]));
}

/** The stored path of an absolute one; `null` where it is of no namespace. */
export function storedPathOf(path: string): string | null {
  const space = namespaces.find(({ root }) => path.startsWith(`${root}/`));
  return space === undefined ? null : storedPath(space, Buffer.from(path.slice(space.root.length + 1)));
}

/** The namespace of a stored path; `null` where it has none of ours. */
export function namespaceOf(path: string): Namespace | null {
  const name = bytesOfPath(path).toString('latin1').split('/', 1)[0];
  return namespaces.find((space) => space.name === name) ?? null;
}

/** Where a stored path is in the sandbox: as the file agent takes it, and as people read it. */
export function placeOf(path: string): { readonly bytes: Buffer; readonly shown: string } {
  const space = namespaceOf(path);
  if (space === null) throw new RangeError('the path is in no namespace');
  const rest = bytesOfPath(path).subarray(space.name.length);
  const bytes = Buffer.concat([Buffer.from(space.root), rest]);
  return { bytes, shown: bytes.toString('utf8') };
}

/** The stored path of an object that somebody else may have put; `null` where it is no file of a namespace. */
export function pathOfKey(prefix: string, key: string): string | null {
  const path = key.slice(prefix.length + 1);
  return namespaceOf(path) === null || !path.includes('/') ? null : path;
}

/** The key of a file's object below the prefix, for its entry; `undefined`: the path itself. */
export function privateKeyOf(prefix: string, path: string): string | undefined {
  if (isKey(`${prefix}/${path}`)) return undefined;
  return `${PRIVATE_SEGMENT}/names/${createHash('sha256').update(bytesOfPath(path)).digest('hex')}`;
}

/** Parents before children, so that each entry has its place. */
export function byDepth(a: ManifestEntry, b: ManifestEntry): number {
  return a.path.split('/').length - b.path.split('/').length;
}
