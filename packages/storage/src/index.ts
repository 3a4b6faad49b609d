export { FsObjectStore } from './fs/fs-object-store.ts';
export { byBytes, isKey, isSegment } from './keys.ts';
export {
  keyOfFile,
  type ManifestEntry,
  MOST_ENTRIES,
  PRIVATE_SEGMENT,
  readManifest,
  type StoredDirectory,
  type StoredFile,
  type StoredLink,
  writeManifest,
} from './manifest.ts';
export {
  listObjects,
  type ObjectInfo,
  type ObjectPage,
  type ObjectSource,
  type ObjectStore,
  type PageOptions,
  type PutOptions,
  type ReadObject,
} from './object-store.ts';
export { bytesOfPath, isStoredPath, textOfPath } from './stored-path.ts';
