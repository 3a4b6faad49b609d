/** The bench's table for people and its JSON for tools. */

import { readFileSync } from 'node:fs';
import { arch, availableParallelism, loadavg, release } from 'node:os';
import type { Screen } from '../../tools/demo/screen.ts';
import type { Comparison, Unit, Verdict } from './comparison.ts';
import type { Row } from './row.ts';

/** What came of one row. */
export type RowResult = Pick<Row, 'name' | 'source' | 'what' | 'baseline'> &
  (
    | { readonly state: 'measured'; readonly comparisons: readonly Comparison[] }
    | { readonly state: 'failed'; readonly reason: string }
    | { readonly state: 'missing'; readonly reason: string; readonly hint: string }
  );

/** Where and how the numbers came about. Ratios are promised, so this explains and never excuses. */
export interface Circumstances {
  readonly rounds: number;
  readonly scale: number;
  readonly cores: number;
  readonly processor: string;
  readonly kernel: string;
  readonly architecture: string;
  readonly node: string;
  readonly uid: number;
  readonly load_at_start: readonly number[];
}

/** Looks at this machine. */
export function circumstances(rounds: number, scale: number): Circumstances {
  return {
    rounds,
    scale,
    cores: availableParallelism(),
    processor: /^model name\s*:\s*(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? 'unknown',
    kernel: release(),
    architecture: arch(),
    node: process.version,
    uid: process.getuid?.() ?? -1,
    load_at_start: loadavg().map((value) => Number(value.toFixed(2))),
  };
}

const WORDS: Readonly<Record<Verdict, string>> = {
  stretch: 'kept, stretch too',
  kept: 'kept',
  'within noise': 'not told from noise',
  broken: 'BROKEN',
};

/** Writes the circumstances. */
export function showCircumstances(facts: Circumstances, screen: Screen): void {
  screen.wrapped(
    `${facts.cores} cores (${facts.processor}), Linux ${facts.kernel}, Node ${facts.node}, uid ${facts.uid}, ` +
      `load ${facts.load_at_start.join(' ')}; medians of ${facts.rounds} interleaved rounds`,
    2,
  );
  if (facts.rounds < 5 || facts.scale < 1)
    screen.line(screen.paint('red', 'Fewer than 5 rounds or a reduced size: a try, not a measurement.'));
}

/** Writes one row. */
export function showRow(result: RowResult, screen: Screen): void {
  screen.line();
  screen.wrapped(`${screen.paint('bold', result.name)}: ${result.what}`, 2);
  screen.wrapped(`  against ${result.baseline}`, 4);
  if (result.state !== 'measured') {
    screen.wrapped(
      `  ${screen.paint('red', result.state)}: ${firstLine(result.reason)}${result.state === 'missing' ? ` (${result.hint})` : ''}`,
      4,
    );
    return;
  }
  screen.table([
    ['', 'boxkite', 'baseline', 'ratio', 'noise', 'promise', ''],
    ...result.comparisons.map((comparison) => cells(comparison, screen)),
  ]);
}

/** The whole reason, its stack included, is in the JSON. */
function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}

function cells(comparison: Comparison, screen: Screen): readonly string[] {
  const { metric, verdict } = comparison;
  const sign = metric.better === 'lower' ? '<=' : '>=';
  const isRatio = comparison.baseline !== null;
  return [
    metric.name,
    withUnit(comparison.subject, metric.unit),
    comparison.baseline === null ? '-' : withUnit(comparison.baseline, metric.unit),
    isRatio ? `${comparison.value.toFixed(2)} x` : '-',
    isRatio ? `${(comparison.noise * 100).toFixed(0)} %` : '-',
    isRatio ? `${sign} ${metric.promise} x` : `${sign} ${withUnit(metric.promise, metric.unit)}`,
    screen.paint(verdict === 'broken' ? 'red' : 'green', WORDS[verdict]),
  ];
}

function withUnit(value: number, unit: Unit): string {
  return `${value >= 100 ? value.toFixed(0) : value.toFixed(2)} ${unit}`;
}
