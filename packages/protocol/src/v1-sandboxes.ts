import { z } from 'zod';
import { dictionary, list } from './collections.ts';
import { maxLifetimeMinutes } from './limits.ts';
import { allowedCommands, bounded, count, flag, natural, numeric, text } from './schema-parts.ts';
import { effectiveSchema } from './schemas.ts';

/** Sandboxes of `/v1`: their requests and answers. */

/** Most sandboxes that one request makes. */
export const maxSandboxesPerRequest = 10;
/** Longest page of a list. */
export const maxPageSize = 1000;

const names = (description: string) =>
  list(text('Name').max(200), (array) => array.max(100))
    .nullish()
    .describe(description);

/** Body of `POST /v1/sandboxes`. Unknown fields are ignored. */
export const createSandboxBody = z
  .object({
    label: text('For people and lists').max(200).nullish(),
    size: z
      .enum(['small', 'medium', 'large'])
      .nullish()
      .describe('1, 2 or 4 GiB of memory and 1, 2 or 4 processors, as far as the machine enforces them'),
    memory_mb: bounded('memory_mb', 'MiB of memory of one command; asked for, it is enforced or refused').nullish(),
    pids: bounded('pids', 'Processes and threads of one command').nullish(),
    cpus: bounded('cpus', 'CPU rate in cores, to the thousandth; asked for, it is enforced or refused').nullish(),
    workspace_mb: bounded('workspace_mb', 'MiB of the five roots together').nullish(),
    storage_gb: numeric
      .pipe(z.number().min(0.001).max(4_000_000))
      .nullish()
      .describe('The same in GiB; workspace_mb goes before'),
    inodes: bounded('inodes', 'Inodes of the five roots together').nullish(),
    fresh: z.boolean().nullish().describe('One envelope per command'),
    workspace: z.enum(['tmpfs', 'disk']).nullish().describe('disk outlives its runner and can be started again'),
    sandbox_allowed_commands: allowedCommands.nullish(),
    rootfs: text('Name of a root file system that the operator gave').min(1).max(200).nullish(),
    lifetime_minutes: count(maxLifetimeMinutes, 'Minutes until it is destroyed by itself').nullish(),
    count: count(maxSandboxesPerRequest, 'So many alike, all or none; more than one is answered by an array').nullish(),
    secret_names: names('No secret exists here: a name is refused by secret_not_found'),
    mcp_connection_names: names('None exists here: a name is refused by mcp_connection_not_found'),
    image_id: z.string().max(200).nullish().describe('No image exists here: refused by not_found'),
    volume_mounts: dictionary(z.string(), z.string())
      .nullish()
      .describe('No volume exists here: a mount is refused by not_found'),
    gpu_count: numeric.pipe(z.number().int()).nullish().describe('Anything but 0 is refused by gpu_support_disabled'),
  })
  .describe('A new sandbox; every field is optional');

/** Body of `POST /v1/sandboxes/{id}/extend`. */
export const extendBody = z.object({
  minutes: count(maxLifetimeMinutes, 'The end of its life is so many minutes from now'),
});

/** Query of `GET /v1/sandboxes`. */
export const listSandboxesQuery = z.object({
  active_only: flag('Without those that are destroyed').optional(),
  limit: count(maxPageSize, 'A page of so many; the header Link names the next one. Default: all').optional(),
  cursor: z.string().min(1).max(200).optional().describe('From the Link of the page before'),
  usage: flag('With what each uses now').optional(),
});

/** What one sandbox uses now. */
export const sandboxUsage = z
  .object({
    memory_bytes: natural.nullable().describe('null where the kernel can’t say it'),
    cpu_ms: z.number().min(0).nullable().describe('null where the kernel can’t say it'),
    processes: natural.nullable().describe('null where the kernel can’t say it'),
    execs: natural.describe('Execs that run'),
  })
  .describe('What it uses now');

/** A sandbox: the reference's fields, and those of `SandboxSummary`. */
export const sandbox = z
  .object({
    id: z.string().describe('UUID'),
    status: z.enum(['active', 'destroyed']).describe('destroyed: nothing of it is left, or can be had again'),
    label: z.string().nullable(),
    created_at: z.string().describe('ISO 8601, UTC'),
    destroyed_at: z.string().nullable(),
    expires_at: z.string().describe('When it is destroyed by itself'),
    connect: z
      .object({ pod_name: z.string().nullable(), note: z.string() })
      .nullable()
      .describe('null once it is destroyed'),
    state: z.enum(['creating', 'ready', 'stopping', 'stopped', 'failed', 'destroyed']),
    state_reason: z
      .string()
      .nullable()
      .describe(
        'Why it is not ready: requested, lifetime, runner_lost, sandbox_failed, workspace_lost, daemon_stopped or start_failed',
      ),
    workspace: z.object({
      kind: z.enum(['tmpfs', 'disk']),
      kept: z.boolean().describe('Whether its files exist'),
    }),
    effective: effectiveSchema.nullable(),
  })
  .describe('One sandbox');

/** What an account has used: the reference's summary. */
export const usageSummary = z
  .object({
    monthly_sandbox_hours_used: z.number().min(0).describe('Hours of all its sandboxes in this month, UTC'),
    monthly_sandbox_hours_limit: z
      .number()
      .min(0)
      .describe('What concurrent_sandboxes_limit comes to in a month of 31 days; hours have no limit of their own'),
    concurrent_sandboxes: natural,
    concurrent_sandboxes_limit: natural,
    total_sandboxes_created: natural,
  })
  .describe('What the account uses');

/** One of the answer to `POST /v1/sandboxes`. */
export const createdSandbox = sandbox.extend({ usage: usageSummary });
/** The answer to `POST /v1/sandboxes`: an array where `count` is more than one. */
export const createdSandboxes = z.union([createdSandbox, z.array(createdSandbox)]);
/** One of a list; `usage` where the query asked for it and the sandbox is ready. */
export const listedSandbox = sandbox.extend({ usage: sandboxUsage.nullable().optional() });
/** The answer to `GET /v1/sandboxes`. */
export const sandboxList = z.array(listedSandbox);

/** See `createSandboxBody`. */
export type CreateSandboxBody = z.input<typeof createSandboxBody>;
/** See `sandbox`. */
export type Sandbox = z.output<typeof sandbox>;
/** See `createdSandbox`. */
export type CreatedSandbox = z.output<typeof createdSandbox>;
/** See `listedSandbox`. */
export type ListedSandbox = z.output<typeof listedSandbox>;
/** See `usageSummary`. */
export type UsageSummary = z.output<typeof usageSummary>;
