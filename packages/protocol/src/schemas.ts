import { z } from 'zod';
import { list } from './collections.ts';
import type { Effective, LayerName, NamespaceName } from './effective.ts';
import { maxCount, maxLifetimeMinutes, maxTerminalSize } from './limits.ts';
import type { ExecLimits, ExecRecord, ExecRequest, SandboxSpec } from './port.ts';
import { allowedCommands, bounded, count, environment, natural, numeric, path, text } from './schema-parts.ts';

/** Limits of one exec; each is enforced or the exec is refused. */
export const execLimitsSchema = z
  .object({
    memory_mb: count(maxCount, 'MiB of memory of the command').optional(),
    pids: count(maxCount, 'Processes and threads of the command').optional(),
    cpu_ms: count(Number.MAX_SAFE_INTEGER, 'Total CPU time of all processes of the command, in ms').optional(),
    output_bytes: numeric
      .pipe(z.number().int().min(0))
      .describe('Bytes that the record keeps per stream; never ends the command')
      .optional(),
  })
  .describe('Limits of this command; absent ones are the sandbox’s') satisfies z.ZodType<ExecLimits>;

/** What `SandboxPort.exec` takes. Unknown fields are dropped. */
export const execRequestSchema = z.object({
  argv: list(text('Program or argument'), (argv) =>
    argv.min(1).refine((words) => words[0] !== '', 'must begin with a program'),
  ).describe('Program and arguments; a program without a slash is looked for in PATH'),
  cwd: path('Working directory, default /workspace').optional(),
  env: environment.optional(),
  stdin: z
    .union([z.literal('stream'), z.instanceof(Uint8Array)])
    .describe('Absent: /dev/null; bytes: written and closed; "stream": written later')
    .optional(),
  tty: z
    .object({ columns: count(maxTerminalSize, 'Columns'), rows: count(maxTerminalSize, 'Rows') })
    .describe('A terminal of this size instead of pipes')
    .optional(),
  timeout_ms: count(Number.MAX_SAFE_INTEGER, 'Time limit in ms').optional(),
  limits: execLimitsSchema.optional(),
  overflow: z
    .enum(['drop', 'block'])
    .describe('drop: volume never stops a command whose reader is away; block: lossless back-pressure')
    .optional(),
  fresh: z.boolean().describe('A new envelope for this command alone').optional(),
  secret_env: environment.describe('Added to the environment; their values are redacted from the output').optional(),
}) satisfies z.ZodType<ExecRequest>;

/** What a new sandbox is to be. Unknown fields are dropped. */
export const sandboxSpecSchema = z.object({
  rootfs: path('Directory that holds the root file system, default the host’s').optional(),
  copy: path('Directory of the caller that is copied into /workspace').optional(),
  memory_mb: bounded('memory_mb', 'MiB of memory of one command; asked for, it is enforced or refused').optional(),
  pids: bounded('pids', 'Processes and threads of one command').optional(),
  cpus: bounded('cpus', 'CPU rate in cores, to the thousandth; asked for, it is enforced or refused').optional(),
  workspace_mb: bounded('workspace_mb', 'MiB of the five roots together').optional(),
  inodes: bounded('inodes', 'Inodes of the five roots together').optional(),
  fresh: z.boolean().describe('One envelope per command').optional(),
  workspace: z.enum(['tmpfs', 'disk']).describe('disk outlives its runner and can be started again').optional(),
  sandbox_allowed_commands: allowedCommands.optional(),
  label: text('For people and lists').max(200).optional(),
  lifetime_minutes: count(maxLifetimeMinutes, 'Minutes until it is destroyed by itself').optional(),
}) satisfies z.ZodType<SandboxSpec>;

const capabilitySet = z.string().regex(/^[0-9a-f]{16}$/);
const limitVia = z.enum(['cgroup_v1', 'cgroup_v2', 'container', 'rlimit', 'none']);
const namespaceNames = ['user', 'pid', 'mnt', 'net', 'ipc', 'uts', 'cgroup'] as const satisfies NamespaceName[];
const layerNames = [
  'seccomp',
  'read_only_root',
  'landlock',
  'network',
  'proc_masks',
  'devices',
  'other_processes',
  'programs',
] as const satisfies LayerName[];

/** What was measured to be in force. */
export const effectiveSchema = z
  .object({
    init: z.enum(['own', 'same-user']).describe('Whether PID 1 has an id of its own'),
    user: z.object({ uid: natural, gid: natural, host_uid: natural, groups: natural }).describe('Ids of the command'),
    capabilities: z
      .object({
        inheritable: capabilitySet,
        permitted: capabilitySet,
        effective: capabilitySet,
        bounding: capabilitySet,
        ambient: capabilitySet,
      })
      .describe('Capability sets, hexadecimal'),
    no_new_privs: z.boolean().describe('Whether privileges can’t be gained by execve'),
    seccomp: z.enum(['filter', 'strict', 'none']).describe('Mode of the system-call filter'),
    seccomp_filters: natural.describe('Number of filters'),
    landlock: natural.describe('Landlock ABI in force, 0 for none'),
    namespaces: z.partialRecord(z.enum(namespaceNames), natural).describe('Inodes of the sandbox’s own namespaces'),
    layers: z.partialRecord(z.enum(layerNames), z.boolean()).describe('Layers that were tried: true where they held'),
    memory: z.object({ via: limitVia, bytes: natural.nullable() }).describe('Memory limit, and what enforces it'),
    processes: z.object({ via: limitVia, max: natural.nullable() }).describe('Process limit, and what enforces it'),
    cpu: z.object({ via: limitVia, cores: z.number().min(0).nullable() }).describe('CPU rate, and what enforces it'),
    workspace: z
      .object({ bytes: natural, inodes: natural, via: z.enum(['tmpfs', 'loop', 'project_quota']) })
      .describe('Size of the five roots, and what holds them'),
    network: z.enum(['none', 'session', 'host']).describe('Which network the command has'),
    programs: z
      .object({
        enforced: z.enum(['none', 'kernel']),
        count: natural,
        via: z.array(z.enum(['noexec_mounts', 'landlock', 'memfd_noexec', 'memfd_filter'])),
      })
      .describe('Whether only listed programs can be code, how many they are, and what enforces it'),
    descriptors: z.array(natural).describe('Descriptors that a command starts with'),
  })
  .describe('What was measured to be in force') satisfies z.ZodType<Effective>;

/** The record of an ended exec. */
export const execRecordSchema = z.object({
  exec_id: z.string().describe('Id of the exec'),
  end: z.enum(['exited', 'signaled', 'timed_out', 'out_of_memory', 'killed', 'lost']).describe('Why it ended'),
  exit_code: z.number().int().nullable().describe('Exit status, null unless it exited'),
  signal: z.string().nullable().describe('Signal that ended it, such as SIGKILL'),
  reason: z
    .string()
    .nullable()
    .describe('cpu_limit, requested, sandbox_closed or init_died, null where end says it all'),
  stdout_bytes: natural.describe('Bytes that it wrote to standard output'),
  stderr_bytes: natural.describe('Bytes that it wrote to standard error'),
  duration_ms: z.number().min(0).describe('From start to end, in ms'),
  usage: z
    .object({
      cpu_ms: z.number().min(0).nullable().describe('CPU time, null where it can’t be measured'),
      memory_peak_bytes: natural.nullable().describe('Peak of memory, null where it can’t be measured'),
    })
    .describe('What it used'),
  effective: effectiveSchema,
}) satisfies z.ZodType<ExecRecord>;
