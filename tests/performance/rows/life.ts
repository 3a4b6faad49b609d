/** A sandbox's whole life, and the command-line program's. */
import { fileURLToPath } from 'node:url';
import { need, runBare, TRUE } from '../bare.ts';
import { compare } from '../comparison.ts';
import { amountOfCalls } from '../effort.ts';
import { atPercentile, callByCall } from '../rounds.ts';
import type { Row } from '../row.ts';
import { runInside, withProvider } from '../sandboxes.ts';

const BWRAP = '/usr/bin/bwrap';
const BUNDLE = fileURLToPath(new URL('../../../dist/boxkite.mjs', import.meta.url));

/** Create, one command, destroy, against the smallest comparable thing that Debian has. */
export const life: Row = {
  name: 'life',
  source: 'tests/performance/rows/life.ts',
  what: 'create + exec true + destroy in a running process',
  baseline: 'bwrap --unshare-all of the same file',
  run: async ({ rounds, scale }) => {
    need(BWRAP, 'apt-get install bubblewrap');
    const bwrap = ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', TRUE];
    return await withProvider(async (provider) => {
      const subject = async (): Promise<void> => {
        const sandbox = await provider.create({});
        try {
          await runInside(sandbox, { argv: [TRUE] });
        } finally {
          await sandbox.destroy();
        }
      };
      const samples = await callByCall(
        rounds,
        amountOfCalls(100, scale),
        subject,
        async () => await runBare(BWRAP, bwrap),
      );
      return [
        compare({ name: 'p50', unit: 'ms', better: 'lower', promise: 3, stretch: 1.5 }, atPercentile(samples, 0.5)),
      ];
    });
  },
};

/** The bundled program with no daemon: process start, sandbox and all. */
export const runCommand: Row = {
  name: 'run-command',
  source: 'tests/performance/rows/life.ts',
  what: 'boxkite run -- true, bundled, no daemon',
  baseline: 'node -e 0 with the pinned Node.js',
  run: async ({ rounds, scale }) => {
    need(BUNDLE, 'make bundle');
    const subject = async (): Promise<void> => await runBare(process.execPath, [BUNDLE, 'run', '--', 'true']);
    const baseline = async (): Promise<void> => await runBare(process.execPath, ['-e', '0']);
    const samples = await callByCall(rounds, amountOfCalls(20, scale), subject, baseline);
    return [
      compare({ name: 'p50', unit: 'ms', better: 'lower', promise: 3, stretch: 1.8 }, atPercentile(samples, 0.5)),
    ];
  },
};
