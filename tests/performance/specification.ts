/**
 * Writes SPECIFICATION.md from the JSON of a whole bench: `node tests/performance/specification.ts bench.json`.
 * Promises come from the rows' own code and measured values from the run, so that no number is copied by hand.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type BenchDocument, readBenchDocument } from './bench-document.ts';
import type { Comparison, Unit } from './comparison.ts';

const PAGE = fileURLToPath(new URL('../../SPECIFICATION.md', import.meta.url));

const INTRODUCTION = `# Specification: the numbers we promise

Each number is a ratio to a baseline that was measured beside it, in the same run: the baseline runs the very file that
the sandbox runs. There are no absolute times, because a machine decides those. A sandbox's promise is what its users
wait for; what it isolates is in the sandbox's own \`effective\` record.

- \`make bench\` measures everything, \`make bench ROW=exec\` one row, \`JSON=FILE\` writes the numbers for tools.
- The sides take turns: call by call for short commands, baseline – sandbox – baseline for long ones. Values are medians
  of at least five such rounds; p50 and p95 are taken within each round.
- *Noise* is the spread of the baseline against itself: how far its two halves differ within a round, as a median.
- A promise counts as broken only beyond the noise. No number here is a pass or fail of \`make test\`.
- A *stretch* is what we aim for and do not promise.
`;

/** The whole page. Throws TypeError where the run was a try. */
export function specification(document: BenchDocument): string {
  const facts = document.circumstances;
  if (facts.rounds < 5 || facts.scale < 1) throw new TypeError('a specification needs at least five full rounds');
  const lines = document.rows.flatMap((row) => {
    // A promise without a number stays on the page, and says so.
    if (row.state !== 'measured')
      return [
        cells([
          `${row.what} (\`${row.name}\`)`,
          row.baseline,
          '',
          '',
          `not measured: ${row.reason.split('\n')[0] ?? ''}`,
          '',
          `\`${row.source}\``,
        ]),
      ];
    return row.comparisons.map((comparison) =>
      cells([
        `${row.what} (\`${row.name}\`), ${comparison.metric.name}`,
        row.baseline,
        promise(comparison, comparison.metric.promise),
        comparison.metric.stretch === undefined ? '' : promise(comparison, comparison.metric.stretch),
        measured(comparison),
        comparison.baseline === null ? '' : `${Math.round(comparison.noise * 100)} %`,
        `\`${row.source}\``,
      ]),
    );
  });
  return [
    INTRODUCTION,
    '## One program',
    '',
    `Measured with ${facts.rounds} rounds on ${facts.cores} cores (${facts.architecture}, Linux ${facts.kernel}, Node ${facts.node}), ` +
      `load average ${facts.load_at_start.join(', ')} at the start.`,
    '',
    cells(['what', 'baseline', 'promise', 'stretch', 'measured', 'noise', 'test']),
    '|---|---|---|---|---|---|---|',
    ...lines,
    '',
  ].join('\n');
}

function cells(texts: readonly string[]): string {
  return `| ${texts.join(' | ')} |`;
}

function promise({ metric, baseline }: Comparison, limit: number): string {
  return `${metric.better === 'lower' ? '≤' : '≥'} ${baseline === null ? amount(limit, metric.unit) : `${limit} ×`}`;
}

function measured(comparison: Comparison): string {
  const value =
    comparison.baseline === null
      ? amount(comparison.value, comparison.metric.unit)
      : `${comparison.value.toFixed(2)} ×`;
  return comparison.verdict === 'broken' ? `**${value}: broken**` : value;
}

function amount(value: number, unit: Unit): string {
  return `${value >= 10 ? Math.round(value) : value.toFixed(1)} ${unit}`;
}

if (import.meta.main) {
  const [file] = process.argv.slice(2);
  if (file === undefined) {
    process.stderr.write('specification: name the JSON of a bench: make bench JSON=bench.json\n');
    process.exitCode = 2;
  } else await writeFile(PAGE, specification(readBenchDocument(await readFile(file, 'utf8'))));
}
