/** Requests for each route of the sidecar: such as its schema takes, with values that a hostile client would choose. */
import type { Random } from './random.ts';

/** A body of JSON. */
export type JsonBody = Record<string, unknown>;

/** One request. */
export interface Sent {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** Bytes as they are, or a value that becomes JSON. */
  readonly body: JsonBody | Buffer | null;
}

/** What the sandbox has of which requests may speak. */
export interface Known {
  readonly execs: string[];
  readonly processes: string[];
}

interface Generator {
  /** Of 1000 requests, so many go to the route more or less than to others. */
  readonly weight: number;
  make(random: Random, known: Known): Omit<Sent, 'method'>;
}

const PATHS = [
  'a',
  'a/b',
  'a/b/c.txt',
  'link',
  'pipe',
  'socket',
  'deep/er',
  '/workspace/a',
  'workspace/a',
  './a',
  '../a',
  '/',
  '/tmp/t',
  '/tmp',
  '/uploads/u',
  '/outputs/o',
  '/skills/s',
  '/mnt/skills',
  '/mnt/user-data/outputs/o',
  '/etc/passwd',
  '/proc/self/environ',
  '/dev/zero',
  '/mnt',
  ' a ',
  'a\\b',
  'x'.repeat(255),
  'x'.repeat(256),
  'd/'.repeat(300),
  '\u00fc\u{1f600}',
  '%2e%2e/',
  '-rf',
  '*',
  '\n',
  'a//b',
  '/workspace/',
  'picture.png',
  'picture.jpg',
  'outside',
] as const;
/** Makes the picture that requests ask for. */
const PICTURE_COMMAND =
  'echo iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg== | base64 -d > picture.png';
const COMMANDS = [
  'true',
  '',
  'echo out; echo err >&2',
  'exit 300',
  'kill -9 $$',
  'mkdir -p a/b; echo text > a/b/c.txt',
  'ln -sf /etc/passwd link',
  'ln -sfn / outside',
  'rm -f pipe; mkfifo pipe',
  'head -c 20000 /dev/zero',
  'head -c 3000 /dev/urandom',
  'cat',
  'sleep 0.02 &',
  "printf 'P5 1 1 255 x' > picture.jpg",
  PICTURE_COMMAND,
  'rm -rf a',
  'ulimit -a',
  '(',
  '\u{1f600}',
  'x'.repeat(5000),
  'setsid sleep 5 &',
] as const;
const CODES = [
  '1 + 1',
  'x = [1]',
  'print("out")',
  'raise ValueError("no")',
  '\u00fc = 1',
  'import sys; sys.stderr.write("e" * 2000)',
  '(',
  'def f(',
  'import os; os.write(1, b"raw")',
  'input()',
  '"\\ud800"',
  'class A:\n    def _repr_html_(self): return "<b>"\nA()',
  '0/0',
  'import os; os.close(3)',
  'import sys; sys.exit(3)',
] as const;
const TEXTS = [
  '',
  'text',
  'a\r\nb\n',
  '\u{1f600}'.repeat(50),
  '\0',
  'x'.repeat(20_000),
  '{{secret:A}}',
  '"\\',
  '\u202e',
] as const;
const PATTERNS = [
  '*',
  '**',
  'a*',
  '**/*.txt',
  '[',
  '{a,b}',
  '',
  '.*',
  '(',
  '(a+)+$',
  'text',
  '\\p{L}',
  'x{1000000}',
  '**/'.repeat(50),
] as const;
const IDS = [
  '',
  'x',
  '0'.repeat(32),
  `proc_${'0'.repeat(32)}`,
  'proc_',
  '..',
  '%2e',
  '\u00fc',
  'x'.repeat(200),
] as const;

const path = (random: Random): string => random.pick(PATHS);
const text = (random: Random): string => random.pick(TEXTS);
const wellFormedPath = (random: Random): string => path(random);
const enc = encodeURIComponent;

function maybe<T>(random: Random, make: () => T): T | null | undefined {
  return random.oneIn(4) ? null : random.oneIn(2) ? undefined : make();
}

function execId(random: Random, known: Known): string {
  return known.execs.length > 0 && !random.oneIn(4) ? random.pick(known.execs) : enc(random.pick(IDS.slice(1)));
}

function processId(random: Random, known: Known): string {
  return known.processes.length > 0 && !random.oneIn(4) ? random.pick(known.processes) : enc(random.pick(IDS.slice(1)));
}

function get(weight: number, make: (random: Random, known: Known) => string): Generator {
  return { weight, make: (random, known) => ({ path: make(random, known), body: null }) };
}

function post(weight: number, url: string, make: (random: Random, known: Known) => JsonBody): Generator {
  return { weight, make: (random, known) => ({ path: url, body: make(random, known) }) };
}

function limits(random: Random): JsonBody {
  return {
    memory_mb: maybe(random, () => random.pick([16, 64, 4096])) ?? undefined,
    pids: maybe(random, () => random.pick([1, 2, 50])) ?? undefined,
    cpu_ms: maybe(random, () => random.pick([1, 1000])) ?? undefined,
    output_bytes: maybe(random, () => random.pick([0, 1, 4096])) ?? undefined,
  };
}

function skill(random: Random): JsonBody {
  return {
    instance_slug: random.pick(['one', 'two', '..', 'a/b', '', 'x'.repeat(300), '\u00fc']),
    display_name: maybe(random, () => 'A skill'),
    description: maybe(random, () => text(random).replaceAll('\0', '')),
    skill_path: maybe(random, () => random.pick(['SKILL.md', '../x', '/etc'])),
    files: maybe(random, () => [
      { path: random.pick(['SKILL.md', 'run.sh', '../out', '/abs', '']), content: text(random) },
    ]),
    entrypoints: maybe(random, () => [{ path: 'run.sh', runtime: 'bash', name: 'run', description: null }]),
  };
}

function exec(random: Random): JsonBody {
  return {
    command: random.pick(COMMANDS).replaceAll('\0', '') || 'true',
    timeout: random.pick([0.2, 1, '1']),
    cwd: maybe(random, () => path(random).replaceAll('\0', '')),
    env: maybe(random, () => ({ [random.pick(['A', 'PATH', 'x', 'ld_preload', '__proto__'])]: 'value' })),
    secret_env: maybe(random, () => ({ [random.pick(['A', 'PATH', '1'])]: random.pick(['API', 'x', '']) })),
    fresh: maybe(random, () => random.oneIn(2)),
    overflow: maybe(random, () => random.pick(['drop', 'block'])),
    limits: maybe(random, () => limits(random)),
  };
}

const configure = (random: Random): JsonBody => ({
  session_id: maybe(random, () => random.pick(['s', '', '\u{1f600}', '../x'])),
  organization_id: maybe(random, () => random.pick(['o', '..', ''])),
  work_item_id: maybe(random, () => random.pick(['w', ''])),
  generation: maybe(random, () => random.pick([1, 2, 3, '1'])),
  storage_prefix: random.oneIn(3) ? random.pick(['../../etc', '/abs', 'a//b', '.', null]) : 'sessions/o/s',
  upload_file_ids: maybe(random, () => random.pick([[], ['u1'], ['../u']])),
  secret_names: maybe(random, () => ['API']),
  secret_allowed_hosts: maybe(random, () => ({ API: ['api.example'], __proto__: ['x'] })),
  secret_capability_token: maybe(random, () => 'token'),
  secrets_control_plane_url: maybe(random, () => 'http://127.0.0.1:9'),
  sandbox_allowed_commands: random.oneIn(8)
    ? random.pick([{ commands: ['echo', 'true'], enforce: 'text' }, { enforce: 'text' }, 5, '{', [{ command: '' }], {}])
    : undefined,
});

const byPath = (weight: number, url: string): Generator => get(weight, (random) => `${url}?path=${enc(path(random))}`);

/** What gives every route something to work on: files, a picture, one exec and one process that take input. */
export const groundwork: readonly { readonly path: string; readonly body: JsonBody }[] = [
  { path: '/exec', body: { command: `rm -rf a picture.png; mkdir -p a/b; echo text > a/b/c.txt; ${PICTURE_COMMAND}` } },
  { path: '/execs', body: { argv: ['cat'], stdin_open: true, timeout: 5 } },
  { path: '/process/kill-all', body: {} },
  { path: '/process/start', body: { command: 'cat', max_runtime_seconds: 5 } },
];

/** Of every route there is. */
export const generators: Readonly<Record<string, Generator>> = {
  'GET /health': get(10, () => '/health'),
  'GET /metrics': get(10, () => '/metrics'),
  'POST /configure': post(1, '/configure', configure),
  'POST /exec': post(40, '/exec', (random) => ({
    ...exec(random),
    timeout: random.pick([-1, 0, 1, '1']),
    env: maybe(random, () => 5),
    cwd: maybe(random, () => random.pick(['/', 'a', '/no/such', '/etc'])),
    stdin: maybe(random, () => text(random).replaceAll('\0', '')),
    tty: maybe(random, () => ({ columns: random.pick([1, 80, 65_535]), rows: '24' })),
    network: maybe(random, () => random.pick(['none', 'session'])),
    description: maybe(random, () => text(random)),
  })),
  'POST /process/start': post(20, '/process/start', (random) => ({
    command: random.oneIn(3) ? 'while read x; do echo $x; done' : random.pick([...COMMANDS, 'sleep 1']),
    max_runtime_seconds: random.pick([1, '1', 1, 1, 0, -1, 1e9]),
    description: maybe(random, () => random.pick(['x', '', '\u{1f600}'])),
    expose_port: random.oneIn(5) ? random.pick([0, 80, 8080, '99999']) : undefined,
  })),
  'GET /process': get(10, () => '/process'),
  'POST /process/:id/stop': {
    weight: 15,
    make: (random, known) => ({ path: `/process/${processId(random, known)}/stop`, body: null }),
  },
  'POST /process/kill-all': { weight: 1, make: () => ({ path: '/process/kill-all', body: null }) },
  'GET /process/:id/output': get(
    20,
    (random, known) =>
      `/process/${processId(random, known)}/output${random.pick(['', '?since_offset=-3', '?since_offset=5', '?since_offset=999999999999'])}`,
  ),
  'POST /process/:id/input': {
    weight: 15,
    make: (random, known) => ({ path: `/process/${processId(random, known)}/input`, body: { data: text(random) } }),
  },
  'POST /process/:id/close-stdin': {
    weight: 5,
    make: (random, known) => ({
      path: `/process/${processId(random, known)}/close-stdin`,
      body: random.oneIn(2) ? null : {},
    }),
  },
  'POST /interpreter/exec': post(15, '/interpreter/exec', (random) => ({
    code: random.pick([...CODES, ...CODES, '', ' ', 'import time; time.sleep(5)']),
    timeout: random.pick([1, '1', 1, 0, 1e9]),
  })),
  'POST /interpreter/reset': { weight: 1, make: () => ({ path: '/interpreter/reset', body: null }) },
  'GET /interpreter/status': get(5, () => '/interpreter/status'),
  'POST /file-create': post(25, '/file-create', (random) => ({
    path: path(random),
    content: text(random),
    description: maybe(random, () => 'x'),
  })),
  'POST /view': post(30, '/view', (random) => ({
    path: path(random),
    view_range: maybe(random, () =>
      random.pick([[1, 2], [1, -1], [0, 0], [5, 1], [-5, 2], [], [1], [1, 2, 3], ['1', '2'], [1e15, 1e15]]),
    ),
  })),
  'POST /str-replace': post(25, '/str-replace', (random) => ({
    path: path(random),
    old_str: random.pick([...TEXTS, 'x', 't']),
    new_str: text(random),
    replace_all: maybe(random, () => random.oneIn(2)),
  })),
  'POST /ls': post(20, '/ls', (random) => ({
    path: maybe(random, () => path(random)),
    limit: maybe(random, () => random.pick([1, 2, '3', 100_000])),
    cursor: maybe(random, () => random.pick(['x', '/workspace/a', '\u{1f600}'])),
  })),
  'POST /glob': post(15, '/glob', (random) => ({
    pattern: random.pick(PATTERNS),
    path: maybe(random, () => path(random)),
    limit: maybe(random, () => 1),
  })),
  'POST /grep': post(15, '/grep', (random) => ({
    pattern: random.pick(PATTERNS),
    path: maybe(random, () => path(random)),
    glob: maybe(random, () => random.pick(PATTERNS)),
    max_matches: maybe(random, () => random.pick([-1, 0, 1, 1e9, '2'])),
  })),
  'POST /watch': post(4, '/watch', (random) => ({
    path: maybe(random, () => path(random)),
    timeout_seconds: random.pick([0, 0.1, '0.1', -5]),
  })),
  'POST /read-image': post(10, '/read-image', (random) => ({
    path: random.oneIn(2) ? 'picture.png' : random.pick(PATHS),
    description: maybe(random, () => 'x'),
  })),
  'POST /present-files': post(5, '/present-files', (random) => ({
    filepaths: Array.from({ length: random.below(4) }, () =>
      random.oneIn(3) ? path(random) : random.pick(['a/b/c.txt', 'picture.png', '/outputs/o', 'a']),
    ),
  })),
  'POST /flush': { weight: 2, make: () => ({ path: '/flush', body: null }) },
  'POST /flush/confirmed': { weight: 2, make: () => ({ path: '/flush/confirmed', body: null }) },
  'POST /prefetch-uploads': post(5, '/prefetch-uploads', (random) => ({
    organization_id: maybe(random, () => random.pick(['o', '..', '/'])),
    upload_file_ids: maybe(random, () => random.pick([[], ['u1', 'u1'], ['../x'], ['.'], ['a/b']])),
  })),
  'POST /ensure-skills': post(4, '/ensure-skills', (random) => ({
    skills: Array.from({ length: random.below(3) }, () => skill(random)),
    skills_rev: maybe(random, () => 'rev'),
  })),
  'POST /inject-skills': post(2, '/inject-skills', (random) => ({ skills: [skill(random)] })),
  'POST /scratch/set': post(10, '/scratch/set', (random) => ({
    key: random.pick(['k', '', '__proto__', 'x'.repeat(256), 'x'.repeat(257)]),
    value: random.pick([...TEXTS, 'v'.repeat(70_000)]),
  })),
  'GET /scratch/get': get(
    10,
    (random) => `/scratch/get?key=${enc(random.pick(['k', '', '__proto__', 'none', '\u00fc']))}`,
  ),
  'GET /scratch/list': get(5, () => '/scratch/list'),
  'POST /scratch/delete': post(5, '/scratch/delete', (random) => ({ key: random.pick(['k', '', 'toString']) })),
  'POST /tool-call': post(5, '/tool-call', (random) => ({
    tool_name: random.pick(['tool', '../x', '\u{1f600}']),
    arguments: maybe(random, () => ({ a: [1, { b: null }] })),
    session_id: maybe(random, () => 'another'),
  })),
  'POST /execs': post(25, '/execs', (random) => ({
    ...exec(random),
    ...(random.oneIn(3)
      ? {
          command: undefined,
          argv: random.pick([['true'], ['sleep', '0.1'], ['/no/such'], ['/'], ['cat']]),
        }
      : {}),
    stdin_open: random.oneIn(2) ? true : undefined,
    tty: maybe(random, () => ({ columns: 80, rows: 24 })),
  })),
  'GET /execs': get(5, () => '/execs'),
  'GET /execs/:eid': get(10, (random, known) => `/execs/${execId(random, known)}`),
  'POST /execs/:eid/close-stdin': {
    weight: 5,
    make: (random, known) => ({ path: `/execs/${execId(random, known)}/close-stdin`, body: null }),
  },
  'POST /execs/:eid/signal': {
    weight: 10,
    make: (random, known) => ({
      path: `/execs/${execId(random, known)}/signal`,
      body: random.pick([{ signal: 'SIGTERM' }, { signal: 9 }, { signal: 'NOSUCH' }, { all: true }, { signal: 64 }]),
    }),
  },
  'POST /execs/:eid/resize': {
    weight: 5,
    make: (random, known) => ({
      path: `/execs/${execId(random, known)}/resize`,
      body: { columns: random.pick([1, '80', 65_535]), rows: 1 },
    }),
  },
  'POST /execs/:eid/input': {
    weight: 10,
    make: (random, known) => ({ path: `/execs/${execId(random, known)}/input`, body: random.bytes(random.below(50)) }),
  },
  'GET /execs/:eid/output': get(
    15,
    (random, known) =>
      `/execs/${execId(random, known)}/output?stream=${random.pick(['stdout', 'stderr'])}&follow=${random.pick(['false', 'true', '0'])}&offset=${random.pick([0, 5, 999_999_999_999_999])}`,
  ),
  'GET /execs/:eid/attach': get(
    5,
    (random, known) => `/execs/${execId(random, known)}/attach?stdout_offset=${random.below(9)}`,
  ),
  'DELETE /files': byPath(8, '/files'),
  'POST /files/move': post(8, '/files/move', (random) => ({
    from: wellFormedPath(random),
    to: wellFormedPath(random),
  })),
  'POST /files/mkdir': post(8, '/files/mkdir', (random) => ({ path: wellFormedPath(random) })),
  'GET /files/stat': get(
    8,
    (random) => `/files/stat?path=${enc(path(random))}&follow=${random.pick(['true', 'false'])}`,
  ),
  'POST /files/ls': post(8, '/files/ls', (random) => ({
    path: random.oneIn(2) ? path(random) : undefined,
    limit: random.oneIn(2) ? 2 : undefined,
    cursor: maybe(random, () => 'a'),
  })),
  'POST /files': post(8, '/files', (random) => ({ path: path(random), content: text(random) })),
  'GET /files/content': byPath(15, '/files/content'),
  'HEAD /files/content': byPath(5, '/files/content'),
  'PUT /files/content': {
    weight: 12,
    make: (random) => ({
      path: `/files/content?path=${enc(path(random))}&mode=${random.pick(['0644', '000', '777'])}&parents=${random.pick(['true', 'false'])}`,
      body: random.bytes(random.below(3000)),
    }),
  },
  'GET /files/archive': get(
    4,
    (random) => `/files/archive?path=${enc(random.pick(['a', 'deep', 'none', 'link', 'a/b/c.txt']))}`,
  ),
  'PUT /files/archive': {
    weight: 6,
    make: (random) => ({
      path: `/files/archive?path=${enc(random.pick(['unpacked', 'a', 'link']))}`,
      body: random.oneIn(2) ? Buffer.alloc(1024) : random.bytes(512 * random.below(5)),
    }),
  },
};
