/** Requests of `/configure`. */
import { dictionary, list, numeric } from '@boxkite/protocol';
import { z } from 'zod';
import { clean } from './schema-parts.ts';
import { prefetchBody } from './storage-schemas.ts';

/** Names of secrets, and hosts of one. */
const mostNames = 200;
const secretName = clean.min(1).max(256);

/** Body of `POST /configure`. */
export const configureBody = z.object({
  generation: numeric.pipe(z.number().int().min(1)).nullish().describe('Default: the next one'),
  session_id: z.string().max(200).nullish(),
  organization_id: z.string().max(200).nullish(),
  work_item_id: z.string().max(200).nullish(),
  storage_prefix: z
    .string()
    .max(1024)
    .nullish()
    .describe(
      'Where the object store keeps the files. Default: work-items/ORGANIZATION/WORK ITEM with both; else nowhere',
    ),
  upload_file_ids: prefetchBody.shape.upload_file_ids.describe('Uploads of the organization that are brought as well'),
  secret_names: list(secretName, (names) => names.max(mostNames))
    .nullish()
    .describe('Secrets that secret_env of a command may name'),
  secret_allowed_hosts: dictionary(
    z.string().min(1).max(256),
    list(clean.max(253), (hosts) => hosts.max(mostNames)),
  )
    .nullish()
    .describe('Checked and kept, and read by nobody yet: no secret is sent to a host, and no command has a network'),
  secret_capability_token: z
    .string()
    .max(8192)
    .regex(/^[\x21-\x7e]*$/, 'must be printable ASCII without blanks')
    .nullish()
    .describe('Shown to the control plane that knows the values; told to nobody else'),
  sandbox_allowed_commands: z
    .any()
    .describe('Command allowlist of this use: names of programs and rules, or {commands, enforce}')
    .nullish(),
  secrets_control_plane_url: z
    .string()
    .max(2048)
    .refine((value) => value === '' || isPlainHttp(value), 'must be an absolute http or https URL without credentials')
    .nullish()
    .describe('Where values are asked for, at POST {url}/internal/secrets/resolve'),
});

function isPlainHttp(value: string): boolean {
  const url = URL.parse(value);
  return (
    url !== null &&
    (url.protocol === 'http:' || url.protocol === 'https:') &&
    url.username + url.password + url.search + url.hash === ''
  );
}
