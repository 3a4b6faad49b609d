/**
 * Sums the results that lanes left in the directories given as arguments: names what failed, and ends with the line
 * `N passed, N failed, N skipped`. Exit status 1 when anything failed.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { readCargoOutput } from './cargo-output.ts';
import { type Outcome, sum } from './outcome.ts';
import { skipFaults, skipList } from './skips.ts';
import { readVitestReport } from './vitest-report.ts';

const laneRecord = z.object({ lane: z.string(), root: z.string(), vitest: z.int(), left: z.string().default('') });
const cargoRecord = z.object({ lane: z.string(), cargo: z.int() });
const gates = z.array(z.object({ name: z.string(), ok: z.boolean() }));

function readText(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'));
}

function lane(directory: string, file: string): Outcome {
  const record = laneRecord.parse(readJson(join(directory, file)));
  const run = { lane: record.lane, root: record.root, status: record.vitest };
  const outcome = readVitestReport(run, readText(join(directory, `${record.lane}.vitest.json`)));
  if (record.left === '') return outcome;
  const left = { lane: record.lane, test: `processes left behind: ${record.left}` };
  return { ...outcome, failed: [...outcome.failed, left] };
}

function cargo(directory: string, file: string): Outcome {
  const record = cargoRecord.parse(readJson(join(directory, file)));
  return readCargoOutput(record.lane, readText(join(directory, `${record.lane}.cargo.log`)) ?? '', record.cargo);
}

/** Each gate of `make check` counts as one test. */
function check(directory: string, file: string): Outcome {
  const found = gates.parse(readJson(join(directory, file)));
  return {
    passed: found.filter((gate) => gate.ok).length,
    failed: found.filter((gate) => !gate.ok).map((gate) => ({ lane: 'check', test: gate.name })),
    skipped: [],
  };
}

function outcomesOf(directory: string): Outcome[] {
  const files = existsSync(directory) ? readdirSync(directory).sort() : [];
  const outcomes = files.flatMap((file) => {
    if (file.endsWith('.lane.json')) return [lane(directory, file)];
    if (file.endsWith('.cargo.json')) return [cargo(directory, file)];
    if (file.endsWith('.gates.json')) return [check(directory, file)];
    return [];
  });
  // A part that ended before it could record anything must not pass for one that had nothing to test.
  return outcomes.length > 0
    ? outcomes
    : [{ passed: 0, failed: [{ lane: directory, test: 'no results' }], skipped: [] }];
}

const directories = process.argv.slice(2);
const total = sum(directories.flatMap(outcomesOf));
const lanes = new Set(
  directories.flatMap((directory) =>
    existsSync(directory) ? readdirSync(directory).flatMap((file) => /^(.+)\.lane\.json$/.exec(file)?.[1] ?? []) : [],
  ),
);
const list = skipList.parse(readJson(join(import.meta.dirname, '..', '..', 'tests', 'skips.json')));
const failed = [...total.failed, ...skipFaults(total.skipped, list, lanes, process.env['CI'] !== undefined)];
for (const { lane: where, test, why = '' } of failed) {
  console.log(`failed: ${where}: ${test}`);
  if (why !== '') console.log(why.replaceAll(/^/gm, '    '));
}
for (const { lane: where, test } of total.skipped) console.log(`skipped: ${where}: ${test}`);
console.log(`${total.passed} passed, ${failed.length} failed, ${total.skipped.length} skipped`);
process.exitCode = failed.length === 0 ? 0 : 1;
