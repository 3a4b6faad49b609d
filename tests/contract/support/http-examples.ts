/** Examples of a page of the documentation: blocks `http`, each a request with the answer in the next block. */

/** One example. */
export interface HttpExample {
  /** Line of the request in the page. */
  readonly line: number;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly answer: {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  };
  /** Fields of the answer, at any depth, that differ from run to run: only their type is compared. */
  readonly varies: ReadonlySet<string>;
}

interface Block {
  readonly line: number;
  readonly first: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly varies: ReadonlySet<string>;
}

/** The examples of a page, in their order. Errors: a block that is not part of an example. */
export function httpExamples(page: string): readonly HttpExample[] {
  const blocks = httpBlocks(page);
  const examples: HttpExample[] = [];
  for (let at = 0; at < blocks.length; at += 2) {
    const [request, answer] = [blocks[at], blocks[at + 1]];
    const [, method, path] = /^([A-Z]+) (\/\S*)$/.exec(request?.first ?? '') ?? [];
    const status = /^HTTP\/1\.1 (\d{3})(?: .*)?$/.exec(answer?.first ?? '')?.[1];
    if (request === undefined || answer === undefined || method === undefined || path === undefined)
      throw new Error(`line ${request?.line}: a request begins with METHOD /path, and its answer follows`);
    if (status === undefined) throw new Error(`line ${answer.line}: an answer begins with HTTP/1.1 STATUS`);
    const { line, headers, body } = request;
    const expected = { status: Number(status), headers: answer.headers, body: answer.body };
    examples.push({ line, method, path, headers, body, answer: expected, varies: answer.varies });
  }
  return examples;
}

function httpBlocks(page: string): readonly Block[] {
  const pattern = /(?:^<!-- varies: (?<varies>.*) -->\n+)?^```http\n(?<text>[\s\S]*?)^```$/gm;
  return [...page.matchAll(pattern)].map(({ index, groups }) => {
    const [head = '', ...rest] = (groups?.['text'] ?? '').split('\n\n');
    const [first = '', ...lines] = head.trimEnd().split('\n');
    const headers = lines.map((line) => /^([\w-]+): *(.*)$/.exec(line) ?? ['', line, '']);
    return {
      line: page.slice(0, index).split('\n').length,
      first,
      headers: Object.fromEntries(headers.map(([, name = '', value = '']) => [name.toLowerCase(), value])),
      body: rest.join('\n\n').trimEnd(),
      varies: new Set((groups?.['varies'] ?? '').split(/[ ,]+/).filter((name) => name !== '')),
    };
  });
}

/** What is left of a JSON answer for comparison. */
export function comparable(value: unknown, varies: ReadonlySet<string>): unknown {
  if (Array.isArray(value)) return value.map((item) => comparable(item, varies));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [
      name,
      varies.has(name) ? `any ${field === null ? 'null' : typeof field}` : comparable(field, varies),
    ]),
  );
}

/** The same for text of lines `NAME VALUE`. */
export function comparableText(text: string, varies: ReadonlySet<string>): string {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => {
      const [name = ''] = line.split(' ', 1);
      return varies.has(name) ? `${name} any` : line;
    })
    .join('\n');
}

/** Learns from an answer what the ids of the page are in this run: texts of fields that vary. */
export function learnIds(told: unknown, real: unknown, varies: ReadonlySet<string>, ids: Map<string, string>): void {
  if (typeof told !== 'object' || told === null || typeof real !== 'object' || real === null) return;
  for (const [name, value] of Object.entries(told)) {
    const found: unknown = (real as Readonly<Record<string, unknown>>)[name];
    if (!varies.has(name)) learnIds(value, found, varies, ids);
    else if (typeof value === 'string' && value !== '' && typeof found === 'string') ids.set(value, found);
  }
}

/** The request with this run's ids in its path and body. */
export function withIds(example: HttpExample, ids: ReadonlyMap<string, string>): HttpExample {
  let { path, body } = example;
  for (const [told, real] of ids) {
    path = path.replaceAll(told, real);
    body = body.replaceAll(told, real);
  }
  return { ...example, path, body };
}
