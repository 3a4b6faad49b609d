/** Which package may import which (docs/architecture.md): the one place where that is decided. */

/** What a package may import beside its own files and, unless it is neutral, Node's modules. */
export interface Rule {
  /** Workspace packages that any file may import. */
  readonly packages: readonly string[];
  /** Workspace packages that only `import()` inside a function, or a type, may name: they load when they are used. */
  readonly lazy?: readonly string[];
  /** Further packages that one entry and what it alone loads may import statically. */
  readonly entries?: Readonly<Record<string, readonly string[]>>;
  /** Loads in a browser: no Node module in anything that the root entry reaches. */
  readonly neutral?: true;
  /** Only tests import it. */
  readonly testOnly?: true;
}

/** By folder name below packages/; a package without a rule fails the test. */
export const importTable: Readonly<Record<string, Rule>> = {
  protocol: { packages: [], neutral: true },
  policy: { packages: ['@boxkite/protocol'] },
  'runner-client': { packages: ['@boxkite/protocol'] },
  storage: { packages: ['@boxkite/protocol'] },
  kit: { packages: ['@boxkite/protocol'] },
  sidecar: {
    packages: ['@boxkite/protocol', '@boxkite/policy', '@boxkite/storage', '@boxkite/runner-client', '@boxkite/kit'],
    entries: { 'src/openapi.ts': ['@boxkite/kit/openapi'] },
  },
  manager: { packages: ['@boxkite/protocol', '@boxkite/policy'] },
  local: {
    packages: [
      '@boxkite/protocol',
      '@boxkite/manager',
      '@boxkite/runner-client',
      '@boxkite/sidecar/app',
      '@boxkite/sidecar/settings',
    ],
    entries: { 'src/sidecar/main.ts': ['@boxkite/kit'] },
  },
  kubernetes: { packages: ['@boxkite/protocol', '@boxkite/manager'] },
  server: {
    packages: ['@boxkite/protocol', '@boxkite/policy', '@boxkite/manager', '@boxkite/kit'],
    entries: {
      'src/openapi.ts': ['@boxkite/kit/openapi'],
      'src/main.ts': ['@boxkite/local/daemon', '@boxkite/local/serve', '@boxkite/kubernetes', '@boxkite/storage'],
    },
  },
  sdk: {
    packages: ['@boxkite/protocol'],
    lazy: ['boxkite/local'],
    entries: { 'src/local.ts': ['@boxkite/local'] },
    neutral: true,
  },
  cli: {
    packages: ['boxkite', 'boxkite/discovery', '@boxkite/protocol'],
    lazy: [
      'boxkite/local',
      '@boxkite/server',
      '@boxkite/local',
      '@boxkite/local/serve',
      '@boxkite/sidecar',
      '@boxkite/policy',
    ],
  },
  testing: { packages: ['*'], testOnly: true },
};
