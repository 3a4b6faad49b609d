/** Reads the report of vitest's JSON reporter. */
import { relative } from 'node:path';
import { z } from 'zod';
import type { Named, Outcome } from './outcome.ts';

const report = z.object({
  testResults: z.array(
    z.object({
      name: z.string(),
      status: z.string(),
      message: z.string().optional(),
      assertionResults: z.array(
        z.object({ fullName: z.string(), status: z.string(), failureMessages: z.array(z.string()).optional() }),
      ),
    }),
  ),
});

/** Where and how vitest ran: `root` is the directory that file names are shown relative to. */
export interface VitestRun {
  readonly lane: string;
  readonly root: string;
  readonly status: number;
}

/** Lines of a failure that are shown with its name: what was expected, not where. */
const SHOWN_LINES = 12;
const SHOWN_CHARACTERS = 2000;

function shown(message: string | undefined): string {
  const lines = (message ?? '').split('\n').filter((line) => line.trim() !== '' && !/^\s+at /.test(line));
  return lines.slice(0, SHOWN_LINES).join('\n').slice(0, SHOWN_CHARACTERS);
}

/** `text` is `undefined` where vitest wrote no report, which is a failure. */
export function readVitestReport(run: VitestRun, text: string | undefined): Outcome {
  const { lane, root, status } = run;
  let passed = 0;
  const failed: Named[] = [];
  const skipped: Named[] = [];
  const files = text === undefined ? [] : report.parse(JSON.parse(text)).testResults;
  for (const file of files) {
    const path = relative(root, file.name);
    for (const found of file.assertionResults) {
      const named = { lane, test: `${path}: ${found.fullName}` };
      if (found.status === 'passed') passed += 1;
      else if (found.status === 'failed') failed.push({ ...named, why: shown(found.failureMessages?.[0]) });
      else skipped.push(named);
    }
    // A file that does not load, or whose hooks fail, has no failed test to show for it.
    if (file.status === 'failed' && !file.assertionResults.some((found) => found.status === 'failed')) {
      failed.push({ lane, test: `${path}: the file itself`, why: shown(file.message) });
    }
  }
  // Unhandled errors, no test files, a crash: vitest's status says so and no test does.
  const how = status === 124 ? 'took too long and was stopped' : `ended with status ${status}`;
  if (status !== 0 && failed.length === 0) failed.push({ lane, test: `vitest ${how}` });
  if (status === 0 && passed === 0) failed.push({ lane, test: 'vitest: no test ran' });
  return { passed, failed, skipped };
}
