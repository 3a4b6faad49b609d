/** The document of the sidecar, made from the routes themselves. Nothing that serves loads this file. */
import { type DocumentParts, describeRoutes, type JsonObject } from '@boxkite/kit/openapi';
import { effectiveSchema, execRecordSchema, v1 } from '@boxkite/protocol';
import { z } from 'zod';
import { SessionRegistry } from './session/session-registry.ts';
import { createSidecar } from './sidecar.ts';

const PARTS: DocumentParts = {
  title: 'boxkite sidecar',
  description:
    'One sandbox over HTTP. Every answer that is not a success is a SidecarError. Made from the routes by `make docs`.',
  security: { type: 'apiKey', in: 'header', name: 'X-Sidecar-Auth-Token', description: "The sandbox's token" },
  named: {
    Effective: effectiveSchema,
    ExecRecord: execRecordSchema,
    ExecSummary: v1.execSummary,
    FileInfo: v1.fileInfo,
    SidecarError: v1.errorBody.extend({
      detail: z.unknown().describe("For the reference's clients: a sentence, or the problems of a body"),
    }),
  },
  error: 'SidecarError',
};

/** OpenAPI 3.1 of the sidecar. */
export async function sidecarDocument(): Promise<JsonObject> {
  let document = (): JsonObject => ({});
  const app = createSidecar(new SessionRegistry(), {
    closing: new AbortController().signal,
    prepare: (fresh) => {
      document = describeRoutes(fresh, PARTS);
    },
  });
  await app.ready();
  const made = document();
  await app.close();
  return made;
}
