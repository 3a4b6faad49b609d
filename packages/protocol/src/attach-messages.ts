/** Binary WebSocket messages from the client of an attached exec: type u8 · payload. Answers are output frames. */
import { BoxkiteError } from './errors.ts';

/** What a client says on an attached WebSocket. */
export type AttachMessage =
  | { readonly type: 'stdin'; readonly data: Uint8Array }
  | { readonly type: 'close_stdin' }
  | { readonly type: 'resize'; readonly columns: number; readonly rows: number }
  | { readonly type: 'signal'; readonly signal: string }
  /** The client's consumer has taken each stream up to here. */
  | { readonly type: 'acknowledge'; readonly stdout: number; readonly stderr: number }
  | { readonly type: 'kill' };

/** Largest message that a client sends. */
export const maxAttachMessageBytes = 1024 * 1024;

const STDIN = 1;
const CLOSE_STDIN = 2;
const RESIZE = 3;
const SIGNAL = 4;
const ACKNOWLEDGE = 5;
const KILL = 6;

/** The bytes of one message. */
export function encodeAttachMessage(message: AttachMessage): Uint8Array {
  switch (message.type) {
    case 'stdin':
      return prefixed(STDIN, message.data);
    case 'close_stdin':
      return Uint8Array.of(CLOSE_STDIN);
    case 'resize': {
      const bytes = new Uint8Array(5);
      const view = new DataView(bytes.buffer);
      bytes[0] = RESIZE;
      view.setUint16(1, message.columns, true);
      view.setUint16(3, message.rows, true);
      return bytes;
    }
    case 'signal':
      return prefixed(SIGNAL, new TextEncoder().encode(message.signal));
    case 'acknowledge': {
      const bytes = new Uint8Array(17);
      const view = new DataView(bytes.buffer);
      bytes[0] = ACKNOWLEDGE;
      view.setBigUint64(1, BigInt(message.stdout), true);
      view.setBigUint64(9, BigInt(message.stderr), true);
      return bytes;
    }
    case 'kill':
      return Uint8Array.of(KILL);
    default:
      return message satisfies never;
  }
}

/** Reads one message; data of `stdin` is a view of it. Errors: `invalid_request`. */
export function decodeAttachMessage(bytes: Uint8Array): AttachMessage {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const type = bytes[0] ?? 0;
  switch (type) {
    case STDIN:
      return { type: 'stdin', data: bytes.subarray(1) };
    case CLOSE_STDIN:
      return sized(bytes, 1, { type: 'close_stdin' });
    case RESIZE: {
      sized(bytes, 5, null);
      const columns = view.getUint16(1, true);
      const rows = view.getUint16(3, true);
      if (columns === 0 || rows === 0) throw invalid('a terminal has at least one column and one row');
      return { type: 'resize', columns, rows };
    }
    case SIGNAL: {
      const signal = new TextDecoder().decode(bytes.subarray(1));
      if (!/^[A-Za-z0-9+]{1,16}$/.test(signal)) throw invalid('a signal is to be a name or a number');
      return { type: 'signal', signal };
    }
    case ACKNOWLEDGE: {
      sized(bytes, 17, null);
      return { type: 'acknowledge', stdout: offset(view, 1), stderr: offset(view, 9) };
    }
    case KILL:
      return sized(bytes, 1, { type: 'kill' });
    default:
      throw invalid(bytes.length === 0 ? 'a message is empty' : `there is no message of type ${bytes[0]}`);
  }
}

function prefixed(type: number, data: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(1 + data.length);
  bytes[0] = type;
  bytes.set(data, 1);
  return bytes;
}

function sized<T>(bytes: Uint8Array, length: number, value: T): T {
  if (bytes.length !== length) throw invalid(`a message of type ${bytes[0]} has ${length} bytes`);
  return value;
}

function offset(view: DataView, at: number): number {
  const value = view.getBigUint64(at, true);
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw invalid('an offset is too large');
  return Number(value);
}

function invalid(message: string): BoxkiteError {
  return new BoxkiteError('invalid_request', message, { details: { field: 'message' } });
}
