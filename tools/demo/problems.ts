/** Problems of the HumanEval form, read from JSON lines; pure. */

/** One problem: a function to write, its solution and the test that judges it. */
export interface Problem {
  readonly task_id: string;
  readonly prompt: string;
  readonly canonical_solution: string;
  readonly test: string;
  readonly entry_point: string;
}

/** A line that is no problem: its number, from 1, and what is wrong with it. */
export interface BadLine {
  readonly line: number;
  readonly reason: string;
}

const FIELDS = ['task_id', 'prompt', 'canonical_solution', 'test', 'entry_point'] as const;

// A dotted Python name: it becomes an argument of `check(...)`, so anything else would be code.
const PYTHON_NAME = /^[\p{L}_][\p{L}\p{N}_]*(\.[\p{L}_][\p{L}\p{N}_]*)*$/u;

/** Reads JSON lines. Blank lines are nothing; bad ones are named and left out; a task_id counts once. */
export function parseProblems(text: string): {
  readonly problems: readonly Problem[];
  readonly bad: readonly BadLine[];
} {
  const problems: Problem[] = [];
  const bad: BadLine[] = [];
  const firstLine = new Map<string, number>();
  for (const [index, content] of text
    .replace(/^\uFEFF/, '')
    .split('\n')
    .entries()) {
    if (content.trim() === '') continue;
    const line = index + 1;
    const result = parseLine(content);
    if (typeof result === 'string') {
      bad.push({ line, reason: result });
      continue;
    }
    const earlier = firstLine.get(result.task_id);
    if (earlier !== undefined) {
      bad.push({ line, reason: `task_id ${JSON.stringify(result.task_id)} was on line ${earlier} already` });
      continue;
    }
    firstLine.set(result.task_id, line);
    problems.push(result);
  }
  return { problems, bad };
}

/** The problem, or what is wrong. */
function parseLine(content: string): Problem | string {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch (error) {
    return `not JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'not a JSON object';
  const fields = new Map<string, unknown>(Object.entries(value));
  const texts: Record<(typeof FIELDS)[number], string> = {
    task_id: '',
    prompt: '',
    canonical_solution: '',
    test: '',
    entry_point: '',
  };
  for (const field of FIELDS) {
    const text = fields.get(field);
    if (text === undefined) return `"${field}" is missing`;
    if (typeof text !== 'string') return `"${field}" must be a string`;
    if (text.includes('\0')) return `"${field}" holds a NUL character, which Python refuses`;
    texts[field] = text;
  }
  if (texts.task_id.trim() === '') return '"task_id" is empty';
  if (!PYTHON_NAME.test(texts.entry_point)) return '"entry_point" is no Python name';
  return texts;
}
