import { Buffer } from 'node:buffer';
import { BoxkiteError, type ErrorDetails } from '@boxkite/protocol';
import type { OpenRequest, ProgramPolicy, WorkspaceId } from './types.ts';

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
  if (open.workspace?.kind === 'disk') checkWorkspaceId(open.workspace.id);
  if (open.programs !== undefined) checkPrograms(open.programs);
}

const MOST_PROGRAMS = 1024;
const MOST_NAME_BYTES = 64 * 1024;

/** Refuses, with `invalid_request`, a list that the protocol can't carry. */
export function checkPrograms({ programs }: ProgramPolicy): void {
  const refuse = (message: string, details: ErrorDetails): never => {
    throw new BoxkiteError('invalid_request', message, { details: { field: 'programs', ...details } });
  };
  for (const program of programs) {
    if (program === '' || program.includes('\0')) {
      refuse('the name of a program is empty or holds a NUL character', { program });
    }
  }
  const bytes = programs.reduce((sum, program) => sum + Buffer.byteLength(program), 0);
  if (programs.length > MOST_PROGRAMS || bytes > MOST_NAME_BYTES) {
    refuse(`a list has at most ${MOST_PROGRAMS} programs with ${MOST_NAME_BYTES} bytes of names`, {
      reason: 'too_many',
    });
  }
}

/** Refuses, with `invalid_request`, what can't be the id of a workspace. */
export function checkWorkspaceId(id: WorkspaceId): void {
  if (id.length === 16 && id.some((byte) => byte !== 0)) return;
  throw new BoxkiteError('invalid_request', 'the id of a workspace is 16 bytes, not all of them zero', {
    details: { field: 'workspace' },
  });
}

function check(field: string, value: number, least: number, most: number): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw new BoxkiteError('invalid_request', `${field} must be a whole number from ${least} to ${most}`, {
    details: { field },
  });
}
