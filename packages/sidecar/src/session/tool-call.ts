/** Hands a tool call on to the deployment's backend, always in the name of the session itself. */
import { hasManyContainers } from '@boxkite/kit';
import { BoxkiteError } from '@boxkite/protocol';
import { boundedBytes } from './bounded-body.ts';

const DEADLINE_MS = 120_000;
const MOST_ANSWER_BYTES = 16 * 1024 * 1024;
/** Arrays and objects of an answer: what is looked at before it is handed on is to be no bomb. */
const MOST_CONTAINERS = 200_000;
const PATH = '/api/v1/internal/tool-call';

/** A call of a tool. */
export interface ToolCall {
  readonly tool_name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** Of the sandbox's present use, never a caller's. */
  readonly session_id: string | null;
}

/** The backend's JSON as it came, or `{error}` with words for an agent. Never fails but when `signal` is aborted. */
export async function callTool(backend: string | null, call: ToolCall, signal: AbortSignal): Promise<string> {
  if (backend === null) return failure('no backend for tool calls is configured (BACKEND_URL)');
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  try {
    return await ask(backend, call, AbortSignal.any([signal, deadline]));
  } catch (error) {
    if (signal.aborted) throw new BoxkiteError('aborted', 'the call was cancelled', { cause: error });
    if (deadline.aborted) return failure(`the backend did not answer within ${DEADLINE_MS / 1000} seconds`);
    return failure('the backend can not be reached');
  }
}

function failure(error: string): string {
  return JSON.stringify({ error });
}

async function ask(backend: string, call: ToolCall, signal: AbortSignal): Promise<string> {
  const answer = await fetch(backend.replace(/\/+$/, '') + PATH, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify(call),
    redirect: 'manual',
    signal,
  });
  if (answer.status !== 200) {
    await answer.body?.cancel();
    return failure(`the backend answered with status ${answer.status}`);
  }
  const bytes = await boundedBytes(answer, MOST_ANSWER_BYTES);
  if (bytes === null) return failure(`the backend's answer is larger than ${MOST_ANSWER_BYTES} bytes`);
  const text = bytes.toString('utf8');
  if (hasManyContainers(text, MOST_CONTAINERS)) {
    return failure(`the backend's answer has more than ${MOST_CONTAINERS} arrays and objects`);
  }
  try {
    JSON.parse(text);
  } catch {
    return failure("the backend's answer is no JSON");
  }
  // Not written anew from its values: nesting that can be read may be too deep for that.
  return text;
}
