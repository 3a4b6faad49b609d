import { defineConfig } from 'vitest/config';

// How many times longer tests may take than on a machine of its own processors: packages/testing/src/patience.ts.
const slowness = Number(process.env['BOXKITE_SLOWNESS'] ?? 1);

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
    testTimeout: 60_000 * slowness,
    hookTimeout: 60_000 * slowness,
    // What comes to hold does so at once, unless other tests have the processors.
    expect: { poll: { timeout: 20_000 * slowness } },
    // The root file system of a sandbox is the host's /usr; a colour code or a locale of the caller is no part of it.
    env: { NO_COLOR: '1', LC_ALL: 'C.UTF-8' },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['packages/*/test/**/*.test.ts', 'tools/**/*.test.ts'],
          setupFiles: ['packages/testing/src/property-seed.ts'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: 'architecture', include: ['tests/architecture/**/*.test.ts'], sequence: { groupOrder: 0 } },
      },
      system('contract', 1),
      system('security', 2),
      {
        extends: true,
        test: {
          name: 'compatibility',
          include: ['tests/compatibility/**/*.test.ts'],
          // Each file has a sidecar of its own, and waits more than it works.
          maxWorkers: 2,
          globalSetup: ['tests/compatibility/support/install.ts'],
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
