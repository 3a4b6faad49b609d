import { defineConfig } from 'vitest/config';

/** System tests: they start real sandboxes and count what is left of them, so that no two files may run at once. */
function system(name: string, order: number) {
  return {
    extends: true as const,
    test: {
      name,
      include: [`tests/${name}/**/*.test.ts`],
      fileParallelism: false,
      maxWorkers: 1,
      sequence: { groupOrder: order },
    },
  };
}

export default defineConfig({
  test: {
    pool: 'forks',
    // A bound for what hangs; a machine with two busy processors takes five times as long as an idle one.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // The root file system of a sandbox is the host's /usr; a colour code or a locale of the caller is no part of it.
    env: { NO_COLOR: '1', LC_ALL: 'C.UTF-8' },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['packages/*/test/**/*.test.ts', 'tools/**/*.test.ts'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: 'architecture', include: ['tests/architecture/**/*.test.ts'], sequence: { groupOrder: 0 } },
      },
      system('contract', 1),
      system('security', 2),
      system('compatibility', 3),
    ],
  },
});
