import { randomUUID } from 'node:crypto';
import type { SandboxSpec } from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import type { NewSandboxRow, SandboxRow } from './store.ts';

const MINUTE = 60_000;

/** Who asks. What belongs to another account is not found, unless an administrator asks. */
export interface Access {
  readonly account: string;
  readonly admin: boolean;
}

/** The record of a sandbox that is about to be made. */
export function newRow(account: string, spec: SandboxSpec, granted: NewSandboxRow['grant']): NewSandboxRow {
  const { copy: _copy, label, lifetime_minutes: _minutes, ...stored } = spec;
  return {
    id: randomUUID(),
    account,
    label: label ?? null,
    state: 'creating',
    state_reason: null,
    goal: 'create',
    kind: spec.workspace ?? 'tmpfs',
    kept: false,
    spec: stored,
    effective: null,
    created_at: granted.wall,
    expires_at: granted.wall + granted.minutes * MINUTE,
    grant: granted,
    destroyed_at: null,
    version: 1,
  };
}

/** Whether it is of the caller's account. */
export function mayUse(row: SandboxRow, access: Access): boolean {
  return access.admin || row.account === access.account;
}

/** One message for what is missing and what is somebody else's. */
export function notFound(): BoxkiteError {
  return new BoxkiteError('not_found', 'there is no such sandbox');
}

/** Refuses what comes after the end. */
export function closing(id: string): BoxkiteError {
  return new BoxkiteError('closing', 'the sandbox is being destroyed', { details: { sandbox: id } });
}

/** Refuses what needs files that outlive a runner. */
export function notKept(id: string): BoxkiteError {
  return new BoxkiteError('workspace_not_kept', 'the files of this sandbox are not kept', { details: { sandbox: id } });
}
