/** Records what the published client sends and reads, as facts that a test can compare. */
import { commands, managerCalls, type RecordedCall, SESSION, toolCalls } from './calls.ts';
import { commandLine, Library, LibraryError, type Observation, type ToolFacts } from './published.ts';
import { type Exchange, RecordingProxy } from './recording-proxy.ts';
import { Responder } from './responder.ts';

/** One request. */
export interface RecordedRequest {
  /** `METHOD PATH?QUERY`. */
  readonly request: string;
  /** Absent: no body and no media type. */
  readonly body?: unknown;
  /** 0: the connection broke. */
  readonly status: number;
  /** Fields of the answer that the client reads, by dots; `[]` for the elements of a list. */
  readonly reads: readonly string[];
  /** How long the client waits for bytes, where it is not the usual. */
  readonly read_timeout_s?: number;
}

/** What a call does: none of the client's own texts are kept. */
export interface RecordedOutcome {
  readonly call: string;
  readonly requests: readonly RecordedRequest[];
  /** Type of the exception. */
  readonly raises?: string;
  /** Of the command-line program. */
  readonly exit_status?: number | null;
}

/** What a tool takes. */
interface RecordedTool {
  readonly name: string;
  readonly multimodal: boolean;
  /** By name: the JSON type, with the default where there is one; `required` where it must be given. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** All that is recorded. */
export interface Recordings {
  readonly library: {
    /** In their order on the wire, of a request with a JSON body, and of one without a body. */
    readonly headers: Readonly<Record<'json' | 'empty', readonly string[]>>;
    readonly timeout: Observation['timeout'] | undefined;
    readonly session: readonly RecordedRequest[];
    readonly tools: readonly RecordedTool[];
    readonly calls: readonly RecordedOutcome[];
  };
  readonly command_line: {
    readonly headers: Readonly<Record<'json' | 'empty', readonly string[]>>;
    readonly timeout: Observation['timeout'] | undefined;
    readonly calls: readonly RecordedOutcome[];
  };
}

const TOKEN = 'token-of-the-recording';
/** Differ from run to run. */
const passing = new Set(['host', 'content-length']);

function headerLines({ rawHeaders }: Exchange): string[] {
  const lines: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = [rawHeaders[at], rawHeaders[at + 1]];
    lines.push(passing.has(name.toLowerCase()) ? name : `${name}: ${value}`);
  }
  return lines;
}

function headersOf(exchanges: readonly Exchange[]) {
  const of = (json: boolean) => {
    const found = exchanges.find(
      ({ method, headers }) => method === 'POST' && (headers['content-type'] !== undefined) === json,
    );
    return found === undefined ? [] : headerLines(found);
  };
  return { json: of(true), empty: of(false) };
}

function requestOf(
  exchange: Exchange,
  note: Observation | undefined,
  usual: number | null | undefined,
): RecordedRequest {
  const { method, url, body, status } = exchange;
  const timeout = note?.timeout['read'];
  return {
    request: `${method} ${url}`,
    ...(body === '' ? {} : { body: JSON.parse(body) as unknown }),
    status,
    reads: note?.reads ?? [],
    ...(typeof timeout === 'number' && timeout !== usual ? { read_timeout_s: timeout } : {}),
  };
}

interface Schema {
  readonly properties: Readonly<Record<string, { readonly type: string; readonly default?: unknown }>>;
  readonly required: readonly string[];
}

function toolOf({ name, multimodal, parameters }: ToolFacts): RecordedTool {
  const { properties, required } = parameters as Schema;
  const told = Object.entries(properties).map(([key, { type, default: usual }]) => {
    const more = usual === undefined ? '' : ` = ${JSON.stringify(usual)}`;
    return [key, `${type}${more}${required.includes(key) ? ', required' : ''}`] as const;
  });
  return { name, multimodal, parameters: Object.fromEntries<string>(told) };
}

interface Raw {
  readonly title: string;
  readonly exchanges: readonly Exchange[];
  readonly raises?: string;
}

async function rawCall(library: Library, recorded: RecordedCall, proxy: RecordingProxy): Promise<Raw> {
  try {
    await library.call(recorded.call);
    return { title: recorded.title, exchanges: proxy.take() };
  } catch (error) {
    if (!(error instanceof LibraryError)) throw error;
    return { title: recorded.title, exchanges: proxy.take(), raises: error.type };
  }
}

async function recordLibrary(responder: Responder, proxy: RecordingProxy): Promise<Recordings['library']> {
  const library = new Library({ url: proxy.url, token: TOKEN }, { observe: true });
  const raw: Raw[] = [];
  const tools = await library.createSession(SESSION);
  raw.push({ title: 'create_session', exchanges: proxy.take() });
  for (const recorded of [...toolCalls, ...managerCalls]) {
    responder.script(recorded.answers ?? []);
    raw.push(await rawCall(library, recorded, proxy));
  }
  const notes = await library.end();
  const all = raw.flatMap(({ exchanges }) => exchanges);
  if (notes.length !== all.length) throw new Error(`${notes.length} notes on ${all.length} exchanges`);
  // The first request is that of a client of its own.
  const usual = notes[1]?.timeout;
  let next = 0;
  const [session, ...calls] = raw.map(({ title, exchanges, ...outcome }): RecordedOutcome => {
    const requests = exchanges.map((exchange) => requestOf(exchange, notes[next++], usual?.['read']));
    return { call: title, requests, ...outcome };
  });
  return {
    headers: headersOf(all.slice(1)),
    timeout: usual,
    session: session?.requests ?? [],
    tools: tools.map(toolOf),
    calls,
  };
}

async function recordCommands(responder: Responder, proxy: RecordingProxy): Promise<Recordings['command_line']> {
  const calls: RecordedOutcome[] = [];
  const all: Exchange[] = [];
  let timeout: Observation['timeout'] | undefined;
  for (const { words, answers } of commands) {
    responder.script(answers ?? []);
    const { status, notes } = await commandLine({ url: proxy.url, token: TOKEN }, words, { observe: true });
    const exchanges = proxy.take();
    all.push(...exchanges);
    if (words[0] === 'files') timeout ??= notes[0]?.timeout;
    const requests = exchanges.map((exchange, index) => requestOf(exchange, notes[index], 30));
    calls.push({ call: words.join(' '), requests, exit_status: status });
  }
  return { headers: headersOf(all), timeout, calls };
}

/** Records everything over a scripted sidecar. */
export async function record(): Promise<Recordings> {
  await using responder = await Responder.start();
  await using proxy = await RecordingProxy.start(responder.url);
  const library = await recordLibrary(responder, proxy);
  const command_line = await recordCommands(responder, proxy);
  return { library, command_line };
}
