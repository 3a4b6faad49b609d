import type { SandboxCeilings, SandboxSpec } from '@boxkite/protocol';
import { BoxkiteError, sandboxDefaults, type v1 } from '@boxkite/protocol';
import type { z } from 'zod';

/** What the machine can hold a sandbox to; `null` where it enforces no such limit. */
export interface MachineLimits {
  readonly memory_mb: number | null;
  readonly cpus: number | null;
  /** The operator's, of each sandbox. */
  readonly ceilings: SandboxCeilings;
}

const FIELDS = ['memory_mb', 'cpus', 'pids', 'workspace_mb', 'inodes'] as const satisfies (keyof SandboxCeilings)[];
type Field = (typeof FIELDS)[number];

const SIZES = {
  small: { memory_mb: 1024, cpus: 1 },
  medium: { memory_mb: 2048, cpus: 2 },
  large: { memory_mb: 4096, cpus: 4 },
} as const;
const MIB_PER_GIB = 1024;

/** A request in the terms of the port. Errors: the reference's codes for what it has and we don't. */
export function sandboxSpec(body: z.output<typeof v1.createSandboxBody>, machine: MachineLimits): SandboxSpec {
  refuseUnsupported(body);
  const size = body.size == null ? undefined : SIZES[body.size];
  const storage = body.storage_gb == null ? undefined : Math.ceil(body.storage_gb * MIB_PER_GIB);
  const { ceilings } = machine;
  const asked = {
    memory_mb: body.memory_mb ?? undefined,
    cpus: body.cpus ?? undefined,
    pids: body.pids ?? undefined,
    workspace_mb: body.workspace_mb ?? storage,
    inodes: body.inodes ?? undefined,
  };
  refuseBeyond(asked, ceilings);
  return {
    label: body.label ?? undefined,
    rootfs: body.rootfs ?? undefined,
    memory_mb: asked.memory_mb ?? within(atMost(size?.memory_mb, machine.memory_mb), 'memory_mb', ceilings),
    cpus: asked.cpus ?? within(atMost(size?.cpus, machine.cpus), 'cpus', ceilings),
    pids: asked.pids ?? within(undefined, 'pids', ceilings),
    workspace_mb: asked.workspace_mb ?? within(undefined, 'workspace_mb', ceilings),
    inodes: asked.inodes ?? within(undefined, 'inodes', ceilings),
    fresh: body.fresh ?? undefined,
    workspace: body.workspace ?? undefined,
    sandbox_allowed_commands: body.sandbox_allowed_commands ?? undefined,
    lifetime_minutes: body.lifetime_minutes ?? undefined,
  };
}

/** A size is a class, not a demand: it is what the machine can enforce of it. */
function atMost(wanted: number | undefined, most: number | null): number | undefined {
  return wanted === undefined || most === null ? undefined : Math.min(wanted, most);
}

/** What nobody asked for by its number: under a ceiling at most that, and then it is enforced. */
function within(wanted: number | undefined, field: Field, ceilings: SandboxCeilings): number | undefined {
  const ceiling = ceilings[field];
  if (ceiling === undefined) return wanted;
  return Math.min(wanted ?? (field === 'cpus' ? ceiling : sandboxDefaults[field]), ceiling);
}

/** A number is a demand: it is met or refused. */
function refuseBeyond(asked: SandboxCeilings, ceilings: SandboxCeilings): void {
  for (const field of FIELDS) {
    const [value, ceiling] = [asked[field], ceilings[field]];
    if (value === undefined || ceiling === undefined || value <= ceiling) continue;
    throw new BoxkiteError('invalid_request', `${field}: a sandbox may have at most ${ceiling} here`, {
      hint: `Ask for at most ${ceiling}, or leave ${field} out.`,
      details: { field, ceiling },
    });
  }
}

function refuseUnsupported(body: z.output<typeof v1.createSandboxBody>): void {
  const secret = body.secret_names?.[0];
  if (secret !== undefined) throw new BoxkiteError('secret_not_found', 'there is no secret of that name');
  const connection = body.mcp_connection_names?.[0];
  if (connection !== undefined) {
    throw new BoxkiteError('mcp_connection_not_found', 'there is no connection of that name');
  }
  if (body.image_id != null) throw new BoxkiteError('not_found', 'there is no such image');
  if (Object.keys(body.volume_mounts ?? {}).length > 0) throw new BoxkiteError('not_found', 'there is no such volume');
  if ((body.gpu_count ?? 0) !== 0) throw new BoxkiteError('gpu_support_disabled', 'no sandbox has a GPU here');
}
