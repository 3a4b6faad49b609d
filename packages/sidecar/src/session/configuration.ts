/** What one use of a sandbox is configured as: the body of `/configure`, with every field in one form. */
import { z } from 'zod';

/** Fields that a client left out are null or empty. */
export const configurationSchema = z.object({
  session_id: z.string().nullable(),
  organization_id: z.string().nullable(),
  work_item_id: z.string().nullable(),
  /** Where the object store keeps the files of this use; `null`: nowhere. */
  storage_prefix: z.string().nullable(),
  upload_file_ids: z.array(z.string()),
  /** Secrets that commands may be given, by name. */
  secret_names: z.array(z.string()),
  secret_allowed_hosts: z.record(z.string(), z.array(z.string())),
  secret_capability_token: z.string().nullable(),
  secrets_control_plane_url: z.string().nullable(),
  /** JSON of the command allowlist of this use; `null`: none. */
  sandbox_allowed_commands: z.string().nullable(),
});

/** See `configurationSchema`. */
export type Configuration = z.output<typeof configurationSchema>;

/** A configuration in force. */
export const configuredSchema = configurationSchema.extend({
  generation: z.number().int().min(0),
  /** SHA-256 of the configuration, so that the same one again is known. */
  digest: z.string(),
});

/** See `configuredSchema`. */
export type Configured = z.output<typeof configuredSchema>;

/** A use that nothing is said of. */
export const blankConfiguration: Configuration = {
  session_id: null,
  organization_id: null,
  work_item_id: null,
  storage_prefix: null,
  upload_file_ids: [],
  secret_names: [],
  secret_allowed_hosts: {},
  secret_capability_token: null,
  secrets_control_plane_url: null,
  sandbox_allowed_commands: null,
};
