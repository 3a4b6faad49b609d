/** Replacing text in a file as bytes: what is not replaced keeps every byte, whatever its encoding and its line ends are. */
import { BoxkiteError } from '@boxkite/protocol';

/** What to replace by what. */
export interface Edit {
  readonly oldText: string;
  readonly newText: string;
  readonly all: boolean;
}

/** Bytes that an edit may make of a file. */
export const mostEdited = 64 * 1024 * 1024;
/** Places in a file: looking for more would keep others waiting. */
const MOST_PLACES = 1_000_000;

/** The new content, or `null` where nothing matches. Errors: `bad_request` where too much matches, `file_over_limit`. */
export function applyEdit(
  before: Buffer,
  { oldText, newText, all }: Edit,
): { readonly after: Buffer | null; readonly occurrences: number } {
  const wanted = Buffer.from(oldText);
  const places = occurrencesOf(before, wanted);
  if (places.length === 0) return { after: null, occurrences: 0 };
  if (places.length > MOST_PLACES) {
    throw new BoxkiteError('bad_request', `old_str is found more than ${MOST_PLACES} times`, {
      hint: 'Give longer text, or edit the file by a command such as sed.',
      details: { field: 'old_str' },
    });
  }
  if (places.length > 1 && !all) {
    throw new BoxkiteError('bad_request', `old_str is found ${places.length} times; it must be unique`, {
      hint: 'Give more of the text around it, or send replace_all.',
      details: { field: 'old_str', occurrences: places.length },
    });
  }
  const put = Buffer.from(newText);
  const size = before.length + places.length * (put.length - wanted.length);
  if (size > mostEdited) {
    throw new BoxkiteError('file_over_limit', `the file would have ${size} bytes; the limit is ${mostEdited}`, {
      details: { size, limit: mostEdited },
    });
  }
  const after = Buffer.allocUnsafe(size);
  let from = 0;
  let to = 0;
  for (const place of places) {
    to += before.copy(after, to, from, place);
    to += put.copy(after, to);
    from = place + wanted.length;
  }
  before.copy(after, to, from);
  return { after, occurrences: places.length };
}

/** Where it begins, none overlapping another. */
function occurrencesOf(bytes: Buffer, wanted: Buffer): readonly number[] {
  const places: number[] = [];
  for (let at = bytes.indexOf(wanted); at !== -1; at = bytes.indexOf(wanted, at + wanted.length)) {
    places.push(at);
    if (places.length > MOST_PLACES) break;
  }
  return places;
}

/** Why text that was seen in a view is not in the file; `null` where nothing can be said. */
export function whyNoMatch(before: Buffer, { oldText }: Edit): string | null {
  const loose = oldText.replaceAll('\r\n', '\n');
  if (!loose.includes('\n')) return null;
  for (const ends of ['\r\n', '\n', '\r']) {
    const text = loose.replaceAll('\n', ends);
    if (text !== oldText && before.includes(text)) {
      return `the file has it with ${ends === '\n' ? 'LF' : ends === '\r' ? 'CR' : 'CRLF'} at the end of lines`;
    }
  }
  return null;
}
