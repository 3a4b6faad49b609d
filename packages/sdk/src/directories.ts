/** Whole directories up and down: what both platforms agree on. */
import type { FilesPort, SandboxPort } from '@boxkite/protocol';
import type { WaitOptions } from './deadline.ts';

/** One entry of a directory of the caller. */
export interface LocalEntry {
  /** Path from the top, with `/` between its parts. */
  readonly path: string;
  readonly type: 'file' | 'directory' | 'symlink' | 'other';
  /** Bytes of a file. */
  readonly size: number;
}

/** How a directory of the caller goes into a sandbox. */
export interface UploadOptions extends WaitOptions {
  /** `false` leaves an entry out, and a directory with all that it holds. */
  readonly filter?: ((entry: LocalEntry) => boolean) | undefined;
  /** Told what was left out because it is a device, socket or pipe, one sentence each. */
  readonly onNote?: ((note: string) => void) | undefined;
}

/** How a directory of a sandbox comes to the caller. */
export interface DownloadOptions extends WaitOptions {
  /** Puts the entries into a target that is not empty, replacing files of the same names. Default: such a target is refused. */
  readonly merge?: boolean | undefined;
  /** Links that lead out of the directory: `refuse` (default) fails the call, `skip` leaves them out and names them. */
  readonly links?: 'refuse' | 'skip' | undefined;
  /** Bytes of all files together. Default 4 GiB. */
  readonly max_bytes?: number | undefined;
  /** Files, directories and links together. Default 262,144. */
  readonly max_entries?: number | undefined;
}

/** What came. */
export interface DownloadReport {
  readonly files: number;
  readonly directories: number;
  readonly links: number;
  readonly bytes: number;
  /** Paths of links that were left out. */
  readonly skipped: readonly string[];
  /**
   * Files and directories that the sandbox's user can't read, and its pipes, sockets and devices: they have not come.
   * `null` where the connection can't tell: in a browser, or behind a proxy that drops trailers.
   */
  readonly omitted: number | null;
  /** Files that became shorter while they were read: the rest of each is zeros. `null` as above. */
  readonly cut: number | null;
}

/** What moves directories on one platform. */
export interface Directories {
  /** Errors: `invalid_request` that names the field. */
  checkSource(directory: string, field: string): string;
  uploadDirectory(
    sandbox: Pick<SandboxPort, 'files' | 'effective'>,
    local: string,
    remote: string,
    options: Omit<UploadOptions, 'timeout_ms'> & { readonly field?: 'copy' },
  ): Promise<void>;
  downloadDirectory(
    files: FilesPort,
    remote: string,
    local: string,
    options: Omit<DownloadOptions, 'timeout_ms'>,
  ): Promise<DownloadReport>;
}
