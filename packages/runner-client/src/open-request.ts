import { BoxkiteError } from '@boxkite/protocol';
import type { OpenRequest } from './types.ts';

const MAX_U16 = 0xffff;
const MAX_U32 = 0xffff_ffff;

/** Refuses, with `invalid_request`, numbers that the protocol can't carry. */
export function checkOpen(open: OpenRequest): void {
  check('memoryBytes', open.memoryBytes, 1, Number.MAX_SAFE_INTEGER);
  check('workspaceBytes', open.workspaceBytes, 1, Number.MAX_SAFE_INTEGER);
  check('inodes', open.inodes, 1, MAX_U32);
  check('pids', open.pids, 1, MAX_U32);
  check('cpuMillis', open.cpuMillis, 0, MAX_U32);
  check('root', open.root, 0, MAX_U16);
}

function check(field: string, value: number, least: number, most: number): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw new BoxkiteError('invalid_request', `${field} must be a whole number from ${least} to ${most}`, {
    details: { field },
  });
}
