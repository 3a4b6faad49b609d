/** What the supervisor keeps of one sandbox: enough to find it again, and what its session wants to find again. */
import { Buffer } from 'node:buffer';
import type { Effective } from '@boxkite/protocol';
import type { SandboxId } from '@boxkite/runner-client';
import type { BlobStore } from './supervise-control.ts';

/** What identifies a sandbox over a restart of Node. */
export interface SandboxIdentity {
  /** The sandbox's id for ever, a UUID. */
  readonly id: string;
  /** The runner's number of it. */
  readonly sandbox: SandboxId;
  readonly disk: boolean;
  /** Selects it at the sidecar; nobody else knows it. */
  readonly token: string;
  readonly effective: Effective;
  /** JSON of its command allowlist; `null`: none. */
  readonly allowed: string | null;
}

const VERSION = 1;
const LENGTH_BYTES = 4;

function encode(identity: SandboxIdentity, session: Uint8Array | null): Uint8Array {
  const { id, sandbox, disk, token, effective, allowed } = identity;
  const header = Buffer.from(
    JSON.stringify({
      version: VERSION,
      id,
      sandbox: String(sandbox),
      disk,
      token,
      effective,
      allowed,
      session: session !== null,
    }),
  );
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(header.length);
  return Buffer.concat([length, header, session ?? new Uint8Array()]);
}

/** Reads a blob. Errors: any, where it is none of this version: what can't be read is no sandbox of ours. */
export function decodeState(blob: Uint8Array): {
  readonly identity: SandboxIdentity;
  readonly session: Uint8Array | null;
} {
  const bytes = Buffer.from(blob.buffer, blob.byteOffset, blob.byteLength);
  const end = LENGTH_BYTES + bytes.readUInt32LE(0);
  const header: unknown = JSON.parse(bytes.toString('utf8', LENGTH_BYTES, end));
  if (!isHeader(header)) throw new TypeError('the state of a sandbox is of another version');
  const { id, disk, token, effective, allowed } = header;
  const identity = { id, disk, token, effective, allowed, sandbox: BigInt(header.sandbox) };
  return { identity, session: header.session ? blob.subarray(end) : null };
}

interface Header {
  readonly id: string;
  readonly sandbox: string;
  readonly disk: boolean;
  readonly token: string;
  readonly effective: Effective;
  readonly allowed: string | null;
  readonly session: boolean;
}

/** Of this version: `encode` alone writes it, and a supervisor lives no longer than the program that it started. */
function isHeader(value: unknown): value is Header {
  return typeof value === 'object' && value !== null && 'version' in value && value.version === VERSION;
}

/** The state of one sandbox, of which its session sees its own part alone. */
export class SandboxState {
  readonly identity: SandboxIdentity;
  readonly #blobs: BlobStore;
  #session: Uint8Array | null;
  #removed = false;

  constructor(blobs: BlobStore, identity: SandboxIdentity, session: Uint8Array | null) {
    this.#blobs = blobs;
    this.identity = identity;
    this.#session = session;
  }

  get(): Uint8Array | null {
    return this.#session;
  }

  /** Resolves when a restart of Node would find it. Errors: `capacity`, `state_unavailable`. */
  async put(session: Uint8Array): Promise<void> {
    if (this.#removed) return;
    this.#session = session;
    await this.#blobs.put(this.identity.id, encode(this.identity, this.#session));
  }

  /** From now on nothing is kept, whoever still calls `put`. */
  async remove(): Promise<void> {
    this.#removed = true;
    this.#session = null;
    await this.#blobs.delete(this.identity.id);
  }
}
