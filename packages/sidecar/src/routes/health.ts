/** `GET /health`: the one route that asks for no token, and tells a stranger nothing of whose sandbox it is. */
import type { SidecarRoutes } from './context.ts';

/** Health. */
export const healthRoutes: SidecarRoutes = (app, { authenticated, only }) => {
  app.get('/health', { schema: { summary: 'Whether it serves; the one route without a token' } }, (request) => {
    const session = authenticated.find(request);
    const shown = session ?? only;
    if (shown === null) return { status: 'healthy' };
    return {
      status: 'healthy',
      session_id: session?.configured?.session_id ?? null,
      skills_rev: session?.services.skills.revision ?? null,
      runtime_mode: shown.settings.runtimeMode,
      storage_backend: shown.services.storage.kind,
      idle_seconds: shown.idleSeconds,
      generation: session === null ? null : (session.configured?.generation ?? 0),
    };
  });
};
