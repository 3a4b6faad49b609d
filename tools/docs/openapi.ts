/** The OpenAPI documents of docs/reference. */
import { openApiDocument } from '@boxkite/server/openapi';
import { sidecarDocument } from '@boxkite/sidecar/openapi';

/** The whole file `openapi.json`, newline at its end. */
export async function openApiReference(): Promise<string> {
  return `${JSON.stringify(await openApiDocument(), null, 2)}\n`;
}

/** The whole file `sidecar/openapi.json`, newline at its end. */
export async function sidecarReference(): Promise<string> {
  return `${JSON.stringify(await sidecarDocument(), null, 2)}\n`;
}
