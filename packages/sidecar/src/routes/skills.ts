/** `/ensure-skills`, and `/inject-skills` as it is called too: the set of files that an agent is given to read. */
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { SidecarRoutes } from './context.ts';
import { textBodyBytes } from './schema-parts.ts';
import { skillsBody } from './skills-schemas.ts';

/** Skills. */
export const skillRoutes: SidecarRoutes = (app, { authenticated }) => {
  for (const url of ['/ensure-skills', '/inject-skills']) {
    app.post(
      url,
      {
        bodyLimit: textBodyBytes,
        schema: { summary: 'Replace the skills, unless this revision is there', body: skillsBody },
      },
      async (request: FastifyRequest<{ Body: z.output<typeof skillsBody> }>) => {
        const { skills, skills_rev } = request.body;
        const ensured = await authenticated.session(request).services.skills.ensure(skills, skills_rev ?? null);
        return {
          status: ensured.changed ? 'updated' : 'unchanged',
          changed: ensured.changed,
          skills_rev: ensured.revision,
          skills_injected: ensured.skills,
          files_written: ensured.files,
        };
      },
    );
  }
};
