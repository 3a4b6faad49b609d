/** Ids of sandboxes as the runner has them. */
import { Buffer } from 'node:buffer';
import { BoxkiteError } from '@boxkite/protocol';
import type { WorkspaceId } from '@boxkite/runner-client';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The bytes of a UUID. Errors: `invalid_request`. */
export function workspaceId(id: string): WorkspaceId {
  if (UUID.test(id)) return Uint8Array.from(Buffer.from(id.replaceAll('-', ''), 'hex'));
  throw new BoxkiteError('invalid_request', 'the id of a sandbox is to be a UUID in lower case', {
    details: { field: 'id' },
  });
}

/** The UUID of these bytes. */
export function workspaceName(id: WorkspaceId): string {
  const hex = Buffer.from(id).toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
