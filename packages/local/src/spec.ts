/** Turns what a caller asks of a sandbox into the runner's units, with the defaults of this substrate. */
import { realpathSync, statSync } from 'node:fs';
import type { SandboxCeilings, SandboxSpec } from '@boxkite/protocol';
import { BoxkiteError, sandboxBounds, sandboxDefaults } from '@boxkite/protocol';
import type { OpenRequest } from '@boxkite/runner-client';

const MIB = 1024 * 1024;

function number(spec: SandboxSpec, field: keyof typeof sandboxBounds, name: string = field): number | undefined {
  const value: unknown = spec[field];
  if (value === undefined) return undefined;
  const { least, most } = sandboxBounds[field];
  const whole = field !== 'cpus';
  if (typeof value === 'number' && value >= least && value <= most && (!whole || Number.isInteger(value))) return value;
  throw new BoxkiteError(
    'invalid_request',
    `${name} is to be ${whole ? 'a whole number' : 'a number'} from ${least} to ${most}`,
    {
      hint: 'Choose one in this range, or leave it out for the default.',
      details: { field },
    },
  );
}

/** The operator's ceilings, each a number that a sandbox may have. Errors: `invalid_request`. */
export function checkCeilings(ceilings: SandboxCeilings): SandboxCeilings {
  const fields = Object.keys(sandboxBounds) as (keyof typeof sandboxBounds)[];
  return Object.fromEntries(
    fields.flatMap((field) => {
      const value = number(ceilings, field, `--max-${field.replaceAll('_', '-')}`);
      return value === undefined ? [] : [[field, value]];
    }),
  );
}

/** The runner's request for a sandbox of its first root. Errors: `invalid_request`. */
export function openRequest(spec: SandboxSpec): OpenRequest {
  const memory = number(spec, 'memory_mb');
  const cpus = number(spec, 'cpus');
  return {
    memoryBytes: (memory ?? sandboxDefaults.memory_mb) * MIB,
    workspaceBytes: (number(spec, 'workspace_mb') ?? sandboxDefaults.workspace_mb) * MIB,
    inodes: number(spec, 'inodes') ?? sandboxDefaults.inodes,
    pids: number(spec, 'pids') ?? sandboxDefaults.pids,
    cpuMillis: cpus === undefined ? 0 : Math.round(cpus * 1000),
    root: 0,
    fresh: spec.fresh === true,
    // Asked for by name it is enforced or refused; a default may be measured as `none`.
    requireMemory: memory !== undefined,
    requireCpu: cpus !== undefined,
  };
}

/** The real path of a directory that a caller named. Errors: `invalid_request` that names the field. */
export function existingDirectory(path: unknown, field: 'rootfs' | 'copy'): string {
  if (typeof path !== 'string' || path === '' || path.includes('\0')) {
    throw new BoxkiteError('invalid_request', `${field} is to be the path of a directory`, { details: { field } });
  }
  try {
    const real = realpathSync(path);
    if (statSync(real).isDirectory()) return real;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    const why = code === 'ENOENT' ? 'is not there' : code === 'EACCES' ? 'may not be read by you' : 'can not be opened';
    throw new BoxkiteError('invalid_request', `${field}: ${path} ${why}`, {
      hint: 'Give the path of a directory that exists.',
      details: { field },
      cause: error,
    });
  }
  throw new BoxkiteError('invalid_request', `${field}: ${path} is not a directory`, {
    hint: 'Give the path of a directory.',
    details: { field },
  });
}

/** The runner's `--root` of a spec: `host`, or a real path. Errors: `invalid_request`. */
export function rootOf(spec: Pick<SandboxSpec, 'rootfs'>): string {
  if (spec.rootfs === undefined) return 'host';
  const real = existingDirectory(spec.rootfs, 'rootfs');
  if (real !== '/') return real;
  throw new BoxkiteError('invalid_request', 'rootfs: / would show all files of this machine to the sandbox', {
    hint: "Leave it out to use the host's programs without its other files.",
    details: { field: 'rootfs' },
  });
}
