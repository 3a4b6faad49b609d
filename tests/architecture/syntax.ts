/** What the architecture tests ask of a TypeScript file, read from its syntax tree. */
import { parseSync } from 'oxc-parser';
import { z } from 'zod';

/** One `import`, `export … from` or `import()`. */
export interface Import {
  readonly specifier: string;
  readonly kind: 'static' | 'type' | 'dynamic';
  readonly line: number;
}

/** A function of any form, with its first and last line counted. */
export interface FunctionSpan {
  readonly line: number;
  readonly lines: number;
}

interface Node extends Readonly<Record<string, unknown>> {
  readonly type: string;
  readonly start: number;
  readonly end: number;
}

function isNode(value: object): value is Node {
  const { type, start, end }: { type?: unknown; start?: unknown; end?: unknown } = value;
  return typeof type === 'string' && typeof start === 'number' && typeof end === 'number';
}

function parse(path: string, text: string) {
  const parsed = parseSync(path, text);
  const [error] = parsed.errors;
  if (error !== undefined) throw new SyntaxError(`${path}: ${error.message}`);
  return parsed;
}

function lineOf(text: string, offset: number): number {
  let line = 1;
  for (let at = text.indexOf('\n'); at !== -1 && at < offset; at = text.indexOf('\n', at + 1)) line += 1;
  return line;
}

function* nodes(value: unknown): Generator<Node> {
  if (Array.isArray(value)) {
    for (const item of value) yield* nodes(item);
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  if (isNode(value)) yield value;
  for (const child of Object.values(value)) yield* nodes(child);
}

const stringLiteral = z.object({ type: z.literal('Literal'), value: z.string() });

/** Every module that the text names. Errors: a dynamic import whose specifier is no literal, which nobody could check. */
export function importsOf(path: string, text: string): readonly Import[] {
  const found: Import[] = [];
  for (const item of nodes(parse(path, text).program)) {
    const line = lineOf(text, item.start);
    if (
      item.type === 'ImportDeclaration' ||
      item.type === 'ExportNamedDeclaration' ||
      item.type === 'ExportAllDeclaration'
    ) {
      const source = stringLiteral.safeParse(item['source']);
      if (!source.success) continue;
      const typeOnly = item['importKind'] === 'type' || item['exportKind'] === 'type';
      found.push({ specifier: source.data.value, kind: typeOnly ? 'type' : 'static', line });
    } else if (item.type === 'ImportExpression') {
      const source = stringLiteral.safeParse(item['source']);
      if (!source.success) throw new SyntaxError(`${path}:${line}: import() of something that is no literal`);
      found.push({ specifier: source.data.value, kind: 'dynamic', line });
    } else if (item.type === 'TSImportType') {
      const source = stringLiteral.safeParse(item['source'] ?? item['argument']);
      if (source.success) found.push({ specifier: source.data.value, kind: 'type', line });
    }
  }
  return found;
}

const functionTypes = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);

/** Every function of the text that has a body. */
export function functionsOf(path: string, text: string): readonly FunctionSpan[] {
  const found: FunctionSpan[] = [];
  for (const item of nodes(parse(path, text).program)) {
    if (!functionTypes.has(item.type) || item['body'] === null) continue;
    const line = lineOf(text, item.start);
    found.push({ line, lines: lineOf(text, item.end) - line + 1 });
  }
  return found;
}

/** Lines of exported declarations without a doc comment directly above. */
export function undocumentedExports(path: string, text: string): readonly number[] {
  const parsed = parse(path, text);
  const docEnds = parsed.comments.filter((c) => c.type === 'Block' && c.value.startsWith('*')).map((c) => c.end);
  const lines: number[] = [];
  for (const item of parsed.program.body) {
    if (item.type !== 'ExportNamedDeclaration' && item.type !== 'ExportDefaultDeclaration') continue;
    // `export { a } from './b.ts'`: the doc comment is where the declaration is.
    if (item.type === 'ExportNamedDeclaration' && item.declaration === null) continue;
    // Overloads and a type that shares its value's name are documented once, at the first.
    const documented = docEnds.some((end) => end <= item.start && /^\s*(@\w+\s*)*$/.test(text.slice(end, item.start)));
    if (!documented && !continuesPrevious(parsed.program.body, item)) lines.push(lineOf(text, item.start));
  }
  return lines;
}

const named = z.looseObject({
  declaration: z.looseObject({
    id: z.looseObject({ name: z.string() }).optional(),
    declarations: z.array(z.looseObject({ id: z.looseObject({ name: z.string() }) })).optional(),
  }),
});

function exportedName(item: unknown): string | undefined {
  const parsed = named.safeParse(item);
  if (!parsed.success) return undefined;
  const { id, declarations } = parsed.data.declaration;
  return id?.name ?? declarations?.[0]?.id.name;
}

function continuesPrevious(body: readonly unknown[], item: unknown): boolean {
  const name = exportedName(item);
  const previous = body[body.indexOf(item) - 1];
  return name !== undefined && exportedName(previous) === name;
}
