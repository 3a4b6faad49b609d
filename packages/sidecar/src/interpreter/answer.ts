/** What a caller is told of a call: however it ended, an answer in which the code's own end is a field. */
import type { Redaction } from '../session/redaction.ts';
import { endOfCharacters } from '../session/utf8.ts';
import type { Forms } from './messages.ts';
import { CHANNEL_LOST_STATUS, type Ending } from './process.ts';

/** A value by media type: text as it is, images in Base64. */
export type DisplayData = Readonly<Record<string, string>>;

/** How a call ended. `channel`: the code has broken the interpreter's own channel. */
export type CallEnd =
  | 'completed'
  | 'raised'
  | 'timed_out'
  | 'aborted'
  | 'reset'
  | 'out_of_memory'
  | 'exited'
  | 'signaled'
  | 'killed'
  | 'channel'
  | 'not_started';

/** The answer to a call. */
export interface InterpreterAnswer {
  /** Standard output and error, in the order in which they were written. */
  readonly stdout: string;
  /** `repr` of the last expression; `null` where the code does not end with one, or its value is `None`. */
  readonly result: string | null;
  /** The traceback, or why there is none; `null` where the code came to its end. */
  readonly error: string | null;
  /** Whether one of the above, or of `data` and `displays`, was cut or left out. */
  readonly truncated: boolean;
  /** The last expression's value as Jupyter shows it; `null` with `result`. */
  readonly data: DisplayData | null;
  /** What `display()` was given, and figures that were open at the end. */
  readonly displays: readonly DisplayData[];
  readonly end: CallEnd;
  /** What became of all that code has made so far. */
  readonly state: 'kept' | 'lost';
  /** Whether nothing of earlier calls was there when it began. */
  readonly fresh: boolean;
  readonly execution_id: string;
  readonly duration_ms: number;
}

/** What an answer is made of. */
export interface Call {
  readonly ending: Ending;
  readonly started: boolean;
  readonly timeoutSeconds: number;
  readonly memoryMb: number | null;
  readonly outputBytes: number;
  readonly redaction: Redaction;
  readonly fresh: boolean;
  readonly executionId: string;
  readonly durationMs: number;
}

/** See `InterpreterAnswer`. */
export function answerOf(call: Call): InterpreterAnswer {
  const { ending, redaction, outputBytes } = call;
  const { reply } = ending;
  let isCut = ending.output.truncated || reply?.truncated === true;
  const show = (text: string): string => {
    if (text === '') return text;
    const shown = cut(redaction.output(text), outputBytes);
    isCut ||= shown.isCut;
    return shown.text;
  };
  const stdout = show(ending.output.bytes.toString());
  const result = reply === null || reply.result === null ? null : show(reply.result);
  const { end, note } = endOf(call);
  const error = errorOf(note, reply?.error ?? null, show);
  const forms = reply?.forms ?? {};
  return {
    stdout,
    result,
    error,
    truncated: isCut,
    data: result === null ? null : { 'text/plain': result, ...displayData(forms, redaction) },
    displays: (reply?.displays ?? []).map((shown) => displayData(shown, redaction)),
    end,
    state: reply === null ? 'lost' : 'kept',
    fresh: call.fresh,
    execution_id: call.executionId,
    duration_ms: call.durationMs,
  };
}

function errorOf(note: string | null, trace: string | null, show: (text: string) => string): string | null {
  const shown = trace === null ? null : show(trace);
  if (note === null || shown === null) return note ?? shown;
  return `${note}\n${shown}`;
}

function displayData(forms: Forms, redaction: Redaction): DisplayData {
  const data: Record<string, string> = {};
  for (const [mime, form] of Object.entries(forms)) {
    data[mime] = typeof form === 'string' ? redaction.output(form) : form.toString('base64');
  }
  return data;
}

function endOf({ ending, started, timeoutSeconds, memoryMb }: Call): {
  readonly end: CallEnd;
  readonly note: string | null;
} {
  const { reply, stopped, record, fault } = ending;
  const timedOut = `Timed out after ${timeoutSeconds} seconds`;
  if (reply !== null) {
    if (reply.error === null) return { end: 'completed', note: null };
    if (stopped === null) return { end: 'raised', note: null };
    const note = `${stopped === 'timed_out' ? timedOut : 'Stopped'}: the code was interrupted, and what it had made so far is kept.`;
    return { end: stopped, note };
  }
  const lost = (end: CallEnd, what: string) => ({
    end,
    note: `${what}. All that code had made is lost, and the next call starts anew.`,
  });
  if (record.end === 'out_of_memory') {
    const limit = memoryMb === null ? 'the sandbox has' : `${memoryMb} MB`;
    return lost('out_of_memory', `Out of memory: it needed more than ${limit}`);
  }
  if (record.end === 'exited' && record.exit_code === CHANNEL_LOST_STATUS) {
    return lost('channel', 'The code has closed the descriptor by which the interpreter answers');
  }
  if (record.end === 'exited') return lost('exited', `The interpreter exited with status ${record.exit_code}`);
  if (record.end === 'signaled') return lost('signaled', `The interpreter was ended by ${record.signal}`);
  if (fault !== null) {
    return lost('channel', `The interpreter was killed, since its channel is no longer to be trusted: ${fault}`);
  }
  if (stopped === 'timed_out') {
    return lost(stopped, `${timedOut}: the code did not end when it was interrupted, so the interpreter was killed`);
  }
  if (stopped !== null) return lost(stopped, `The interpreter was killed: ${WORDS[stopped]}`);
  if (!started) return lost('not_started', 'The interpreter did not start in time, and was killed');
  return lost('killed', `The interpreter was killed (${record.reason ?? record.end})`);
}

const WORDS = { aborted: 'the caller has left', reset: 'it was reset' } as const;

/** The first bytes, up to the end of a character. */
function cut(text: string, most: number): { readonly text: string; readonly isCut: boolean } {
  // No character has more than three bytes for each of its units.
  if (text.length * 3 <= most || Buffer.byteLength(text) <= most) return { text, isCut: false };
  const bytes = Buffer.from(text).subarray(0, most);
  return { text: bytes.subarray(0, endOfCharacters(bytes)).toString(), isCut: true };
}
