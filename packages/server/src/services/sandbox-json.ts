import type { SandboxSummary, v1 } from '@boxkite/protocol';

const CONNECT = {
  pod_name: null,
  note: 'Run commands by POST …/exec, or by `boxkite exec`.',
} as const;

/** A sandbox as `/v1` shows it: the reference's fields beside our own. */
export function sandboxJson(summary: SandboxSummary): v1.Sandbox {
  const gone = summary.state === 'destroyed' || (summary.state === 'failed' && !summary.workspace.kept);
  return {
    id: summary.id,
    status: gone ? 'destroyed' : 'active',
    label: summary.label,
    created_at: summary.created_at,
    destroyed_at: summary.destroyed_at,
    expires_at: summary.expires_at,
    connect: gone ? null : CONNECT,
    state: summary.state,
    state_reason: summary.state_reason,
    workspace: { ...summary.workspace },
    // Copied by its serializer; the shape is the schema's.
    effective: summary.effective as v1.Sandbox['effective'],
  };
}
