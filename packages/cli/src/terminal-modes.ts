/** Follows which modes a program has turned on in the terminal, so that those it leaves on can be turned off. */

/** Modes that make a terminal hard to use when they stay: private mode number, and whether a fresh terminal has it on. */
const TRACKED: ReadonlyMap<number, boolean> = new Map([
  // Application cursor keys, visible cursor, alternate screen (three generations), mouse, focus, bracketed paste.
  [1, false],
  [25, true],
  [47, false],
  [1000, false],
  [1002, false],
  [1003, false],
  [1004, false],
  [1006, false],
  [1015, false],
  [1047, false],
  [1049, false],
  [2004, false],
]);
const SEQUENCE = /\x1b\[\?([\d;]{1,64})([hl])/g;
/** The longest beginning of a sequence that may be cut between two pieces of output. */
const CARRIED = 68;

/** The modes of one terminal, as its output so far leaves them. */
export class TerminalModes {
  readonly #changed = new Set<number>();
  #carry = '';
  #coloured = false;

  /** Looks at a piece of output. */
  see(data: Uint8Array): void {
    if (this.#carry === '' && !data.includes(0x1b)) return;
    const text = this.#carry + Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('latin1');
    this.#coloured = true;
    let end = 0;
    for (const match of text.matchAll(SEQUENCE)) {
      end = match.index + match[0].length;
      for (const number of (match[1] ?? '').split(';')) this.#set(Number(number), match[2] === 'h');
    }
    const cut = text.lastIndexOf('\x1b');
    const tail = cut >= end ? text.slice(cut) : '';
    this.#carry = tail.length <= CARRIED && /^\x1b(?:\[(?:\?[\d;]*)?)?$/.test(tail) ? tail : '';
  }

  /** What to write to the terminal to have it as it was; empty where nothing has changed. */
  restoration(): string {
    const modes = [...this.#changed].map((mode) => `\x1b[?${mode}${TRACKED.get(mode) === true ? 'h' : 'l'}`).join('');
    return this.#coloured ? `${modes}\x1b[0m` : modes;
  }

  #set(mode: number, on: boolean): void {
    const normal = TRACKED.get(mode);
    if (normal === undefined) return;
    if (on === normal) this.#changed.delete(mode);
    else this.#changed.add(mode);
  }
}
