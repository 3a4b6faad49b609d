/** Requests and answers of `/v1`, for the server and its clients. Requests: unknown fields are ignored. */
import { z } from 'zod';
import { natural, text } from './schema-parts.ts';

export * from './v1-execs.ts';
export * from './v1-files.ts';
export * from './v1-sandboxes.ts';

/** Media type of output frames (`output-frames.ts`). */
export const outputMediaType = 'application/vnd.boxkite.output';
/** Subprotocol of the WebSocket of attach. */
export const attachProtocol = 'boxkite.v1';
/** Before a key in the list of subprotocols, where a client can't set headers. */
export const bearerProtocolPrefix = 'bearer.';
/** What every API key begins with. */
export const apiKeyPrefix = 'bxk_live_';

/** The one shape of every answer that is not a success. */
export const errorBody = z
  .object({
    error: z.object({
      code: z.string().describe('What to act on; docs/reference/errors.md lists them'),
      message: z.string(),
      hint: z.string().describe('What to do next'),
      retryable: z.boolean().describe('The same call may work later, and nothing of this one is left'),
      details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null(), z.array(z.string())])),
    }),
    detail: z
      .object({ error: z.object({ code: z.string(), message: z.string() }) })
      .optional()
      .describe('429 only: the same once more'),
  })
  .describe('What went wrong');

/** The answer to `GET /health`. */
export const health = z.object({ status: z.literal('ok') });

/** The answer to `GET /v1/status`. */
export const status = z
  .object({
    version: z.string(),
    pid: natural,
    started_at: z.string(),
    instance: z.string().describe('Of this installation'),
    runner: z.object({
      mode: z.string().describe('root, range or same-user'),
      layers: z.record(z.string(), z.boolean()).describe('What was tried when the runner started'),
    }),
    sandboxes: z.object({
      creating: natural,
      ready: natural,
      stopping: natural,
      stopped: natural,
      failed: natural,
    }),
    execs: natural.describe('That run'),
    memory_bytes: natural.describe('Of this process'),
    limits: z.object({
      sandboxes: natural,
      sandboxes_per_account: natural,
      default_lifetime_minutes: natural,
      max_lifetime_minutes: natural,
    }),
    data_directory: z.string(),
    unknown_workspaces: z.array(z.string()).describe('Kept workspaces that no record names; nothing deletes them'),
  })
  .describe('What the daemon is and does');

/** Body of `POST /v1/api-keys`. */
export const createKeyBody = z.object({
  name: text('For people').min(1).max(200),
  account: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$/, 'must be 1 to 100 letters, digits and . _ @ -')
    .optional()
    .describe('Whose sandboxes it sees. Default: that of the key that makes it'),
  admin: z.boolean().optional().describe('Sees all accounts and manages keys'),
});

/** A key as lists show it. */
export const apiKey = z
  .object({
    id: z.string(),
    name: z.string(),
    account: z.string(),
    admin: z.boolean(),
    prefix: z.string().describe('How the key begins'),
    created_at: z.string(),
    last_used_at: z.string().nullable().describe('To the minute'),
  })
  .describe('One API key');
/** The answer to `POST /v1/api-keys`: the only one that holds the key itself. */
export const createdKey = apiKey.extend({ key: z.string() });
/** The answer to `GET /v1/api-keys`. */
export const apiKeyList = z.array(apiKey);

/** See `status`. */
export type Status = z.output<typeof status>;
/** See `apiKey`. */
export type ApiKey = z.output<typeof apiKey>;
/** See `createdKey`. */
export type CreatedKey = z.output<typeof createdKey>;
