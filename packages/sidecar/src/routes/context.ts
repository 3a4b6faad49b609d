import type { FastifyInstance } from 'fastify';
import type { ImageHelper } from '../images/image-helper.ts';
import type { Session } from '../session/session.ts';
import type { RequestMetrics } from './metrics.ts';
import type { Authenticated } from './token.ts';

/** What the sidecar's own routes work with. */
export interface SidecarContext {
  readonly authenticated: Authenticated;
  /** The one that there is, where the sidecar is one sandbox's. */
  readonly only: Session | null;
  readonly metrics: RequestMetrics;
  readonly images: ImageHelper;
  /** Aborted when the app begins to close: long answers end then. */
  readonly closing: AbortSignal;
}

/** Adds routes to an app. */
export type SidecarRoutes = (app: FastifyInstance, context: SidecarContext) => void;
