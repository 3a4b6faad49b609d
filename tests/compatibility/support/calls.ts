/** What is recorded: every call of the library and of its command-line program that a sidecar can see. */
import type { Call } from './published.ts';
import type { Scripted } from './responder.ts';

/** A call, and what its requests get where that is not the usual answer. */
export interface RecordedCall {
  /** Unique in its list; says what is special about the call. */
  readonly title: string;
  readonly call: Call;
  readonly answers?: readonly Scripted[];
}

/** A call of the command-line program. */
export interface RecordedCommand {
  readonly words: readonly string[];
  readonly answers?: readonly Scripted[];
}

/** Of all recorded sessions. */
export const SESSION = '22222222-2222-4222-8222-222222222222';

const refusal = (status: number, detail: unknown = 'a sentence'): Scripted => ({ status, body: { detail } });

function tool(name: string, args: Call['arguments'], more: Partial<RecordedCall> = {}): RecordedCall {
  return { title: `tool ${name}`, call: { kind: 'tool', name, arguments: args }, ...more };
}

function manager(name: string, args: Call['arguments'] = {}, more: Partial<RecordedCall> = {}): RecordedCall {
  return { title: name, call: { kind: 'manager', name, arguments: { session_id: SESSION, ...args } }, ...more };
}

const skills = [{ instance_slug: 'a', display_name: 'A', files: [{ path: 'SKILL.md', content: 'text' }] }];
const directory: Scripted = { status: 200, body: { content: '', lines: 0, is_directory: true, entries: ['a', 'b c'] } };

/** The 15 tools that a session has by default, by their successes and by what they make of other answers. */
export const toolCalls: readonly RecordedCall[] = [
  tool('bash_tool', { command: 'true' }),
  tool('bash_tool', { command: 'x', timeout: 9999 }, { title: 'tool bash_tool, over its longest timeout' }),
  tool('bash_tool', { command: 'x' }, { title: 'tool bash_tool, refused', answers: [refusal(422)] }),
  tool('python_interpreter', { code: '6*7' }),
  tool(
    'python_interpreter',
    { code: 'x', timeout: 9999 },
    { title: 'tool python_interpreter, over its longest timeout' },
  ),
  tool('file_create', { path: 'a.txt', content: 'one' }),
  tool('view', { path: 'a.txt' }),
  tool('view', { path: 'a.txt', start_line: 2, end_line: 5 }, { title: 'tool view, a range' }),
  tool('view', { path: 'sub' }, { title: 'tool view, a directory', answers: [directory] }),
  tool('view', { path: 'a.png' }, { title: 'tool view, an image' }),
  tool('view', { path: 'none.png' }, { title: 'tool view, no such image', answers: [refusal(404)] }),
  tool('view', { path: 'b\u00a0c' }, { title: 'tool view, another kind of space', answers: [refusal(404), directory] }),
  tool('view', { path: 'data' }, { title: 'tool view, no text', answers: [refusal(422, 'this is a binary file')] }),
  tool('str_replace', { path: 'a.txt', old_str: 'one', new_str: 'two' }),
  tool(
    'str_replace',
    { path: 'a.txt', old_str: 'a', new_str: 'b' },
    {
      title: 'tool str_replace, not found',
      answers: [{ status: 200, body: { path: '/workspace/a.txt', replaced: false, occurrences: 0 } }],
    },
  ),
  tool('present_files', { paths: ['a.txt'] }),
  tool('ls', {}),
  tool('glob', { pattern: '**/*.txt' }),
  tool('grep', { pattern: 'one' }),
  tool(
    'grep',
    { pattern: 'one', path: 'sub', glob: '*.py', max_matches: 3 },
    { title: 'tool grep, all of its options' },
  ),
  tool('start_process', { command: 'sleep 1', description: 'nap', max_runtime_seconds: 60 }),
  tool('start_process', { command: 'sleep 1' }, { title: 'tool start_process, by default' }),
  tool('get_process_output', { process_id: 'proc-1' }),
  tool(
    'get_process_output',
    { process_id: 'none' },
    { title: 'tool get_process_output, unknown', answers: [refusal(404)] },
  ),
  tool('send_process_input', { process_id: 'proc-1', data: 'in\n' }),
  tool(
    'send_process_input',
    { process_id: 'none', data: 'x' },
    { title: 'tool send_process_input, unknown', answers: [refusal(404)] },
  ),
  tool('stop_process', { process_id: 'proc-1' }),
  tool('stop_process', { process_id: 'none' }, { title: 'tool stop_process, unknown', answers: [refusal(404)] }),
  tool('list_processes', {}),
  tool('watch_directory', {}),
];

const secrets = {
  organization_id: '11111111-1111-4111-8111-111111111111',
  work_item_id: '33333333-3333-4333-8333-333333333333',
  upload_file_ids: [' f1 ', 'f1', 'f2'],
  secret_grants: [{ name: 'key', allowed_hosts: ['api.example.com'] }],
  secret_capability_token: 'capability',
  secrets_control_plane_url: 'http://127.0.0.1:1',
};

/** Every method of the manager that sends something, and how it recovers. */
export const managerCalls: readonly RecordedCall[] = [
  manager('execute', { command: 'true', timeout: 5, description: 'why', secret_env: { KEY: 'key' } }),
  manager('interpreter_reset'),
  manager('node_interpreter_exec', { code: '6*7' }),
  manager('node_interpreter_reset'),
  manager('view', { path: 'a.txt', view_range: [1, 2], description: 'why' }),
  manager('read_image', { path: 'a.png' }),
  manager('str_replace', { path: 'a', old_str: 'o', new_str: 'n', replace_all: true, description: 'why' }),
  manager('watch_directory', { path: 'sub', timeout_seconds: 2.5 }),
  manager('start_process', { command: 'serve', expose_port: 3000 }),
  manager('get_process_output', { process_id: 'proc-1', since_offset: 7 }),
  manager('present_files', { filepaths: ['a.txt'] }),
  manager('collect_output_files'),
  manager('ensure_skills', { skills }),
  manager('inject_skills', { skills }),
  manager('flush'),
  manager('snapshot'),
  manager('health_check'),
  manager('scratch_set', { key: 'k', value: 'v' }),
  manager('scratch_get', { key: 'k' }),
  manager('scratch_list'),
  manager('scratch_delete', { key: 'k' }),
  manager('http_request', { method: 'GET', url: 'https://api.example.com/' }),
  manager('pty_exec', { command: 'top', input_bytes: 'q' }),
  manager('lsp_start', { language: 'python' }),
  manager('lsp_open', { lsp_id: 'lsp-1', path: 'a.py', content: 'x' }),
  manager('lsp_completion', { lsp_id: 'lsp-1', path: 'a.py', line: 0, character: 1 }),
  manager('lsp_stop', { lsp_id: 'lsp-1' }),
  manager('browser_navigate', { url: 'https://example.com/' }),
  manager('browser_exec', { script: '1' }),
  manager('browser_screenshot'),
  manager('browser_close'),
  manager('proxy_preview_request', { port: 3000, path: '/index.html', method: 'GET', params: { a: '1' } }),
  manager('execute', { command: 'x' }, { title: 'execute, 503 once', answers: [refusal(503)] }),
  manager(
    'execute',
    { command: 'x' },
    { title: 'execute, 504 twice', answers: [refusal(504), { status: 200, body: {} }, refusal(504)] },
  ),
  manager('execute', { command: 'x' }, { title: 'execute, a broken connection', answers: ['broken'] }),
  manager('execute', { command: 'x' }, { title: 'execute, broken and no health', answers: ['broken', refusal(503)] }),
  manager('execute', { command: 'x' }, { title: 'execute, 500', answers: [refusal(500)] }),
  manager('execute', { command: 'x' }, { title: 'execute, 429', answers: [refusal(429)] }),
  manager(
    'stop_process',
    { process_id: 'x' },
    {
      title: 'stop_process, a 404 that reads like the end of the session',
      answers: [refusal(404, 'Session x not found')],
    },
  ),
  {
    title: 'create_session, known already',
    call: { kind: 'session', name: 'create_session', arguments: { session_id: SESSION, ...secrets } },
  },
  manager('destroy_session'),
  {
    title: 'create_session, with secrets, a work item and uploads',
    call: { kind: 'session', name: 'create_session', arguments: { session_id: SESSION, ...secrets } },
  },
];

/** The commands of the program that work in local mode. */
export const commands: readonly RecordedCommand[] = [
  { words: ['exec', 'echo hi'] },
  {
    words: ['exec', '--timeout', '7', 'false'],
    answers: [{ status: 200, body: { exit_code: 1, stdout: '', stderr: '' } }],
  },
  { words: ['exec', 'x'], answers: [refusal(403, { error_type: 'session_budget_exceeded' })] },
  { words: ['files', 'view', 'a.txt'] },
  { words: ['files', 'view', 'a.txt', '--start-line', '1', '--end-line', '2'] },
  { words: ['files', 'view', 'sub'], answers: [directory] },
  { words: ['files', 'create', 'a.txt', '--content', 'one'] },
  { words: ['files', 'edit', 'a.txt', '--old', 'one', '--new', 'two'] },
  { words: ['files', 'edit', 'a.txt', '--old', 'one', '--new', 'two', '--replace-all'] },
  { words: ['files', 'ls'] },
  { words: ['files', 'ls', 'sub'] },
  { words: ['files', 'glob', '**/*.txt'] },
  { words: ['files', 'grep', 'one'] },
  { words: ['files', 'grep', 'one', '--path', 'sub', '--glob', '*.py', '--max-matches', '3'] },
  { words: ['files', 'view', 'x'], answers: [refusal(404, 'no such file')] },
  { words: ['exec', 'y'], answers: ['broken'] },
];
