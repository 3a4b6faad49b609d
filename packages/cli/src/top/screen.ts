/** The terminal while a live picture has it: alternate screen, no cursor, keys one by one; all given back at the end. */
import type { Readable } from 'node:stream';
import type { CommandIo } from '../io.ts';

const ENTER = '\x1b[?1049h\x1b[?25l\x1b[2J';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const KEY = /\x1b(?:\[[\d;]*[A-Za-z~]|O[A-Z])|[\s\S]/g;

/** What a key means. */
export type Key = 'quit' | 'up' | 'down' | 'page-up' | 'page-down' | 'top' | 'bottom';

const KEYS: ReadonlyMap<string, Key> = new Map([
  ['q', 'quit'],
  ['Q', 'quit'],
  ['\x03', 'quit'],
  ['\x04', 'quit'],
  ['k', 'up'],
  ['\x1b[A', 'up'],
  ['\x1bOA', 'up'],
  ['j', 'down'],
  ['\x1b[B', 'down'],
  ['\x1bOB', 'down'],
  ['\x1b[5~', 'page-up'],
  ['b', 'page-up'],
  ['\x1b[6~', 'page-down'],
  [' ', 'page-down'],
  ['g', 'top'],
  ['\x1b[H', 'top'],
  ['\x1b[1~', 'top'],
  ['G', 'bottom'],
  ['\x1b[F', 'bottom'],
  ['\x1b[4~', 'bottom'],
]);

/** A picture that is drawn again and again. */
export class Screen {
  readonly #io: CommandIo;
  readonly #keys: Readable | null;
  readonly #stops: (() => void)[] = [];
  #blocked = false;

  /** Takes the terminal. `redraw` is called when its size has changed, or this program was stopped and goes on. */
  constructor(io: CommandIo, onKey: (key: Key) => void, redraw: () => void) {
    this.#io = io;
    this.#keys = io.isTerminal(0) ? io.stdin() : null;
    const read = (chunk: Buffer | string): void => {
      for (const [text] of String(chunk).matchAll(KEY)) {
        const key = KEYS.get(text);
        if (key !== undefined) onKey(key);
      }
    };
    this.#keys?.on('data', read);
    this.#stops.push(() => this.#keys?.off('data', read));
    this.#stops.push(
      io.onSignal(['SIGWINCH', 'SIGCONT'], (signal) => {
        if (signal === 'SIGCONT') this.#enter();
        redraw();
      }),
    );
    this.#enter();
  }

  /** Draws over what is there. A terminal that is behind gets the next picture instead of this one. */
  draw(lines: readonly string[]): void {
    if (this.#blocked) return;
    const stdout = this.#io.stdout();
    const text = `\x1b[H${lines.map((line) => `${line}\x1b[K`).join('\r\n')}\x1b[J`;
    this.#blocked = !stdout.write(text);
    if (this.#blocked) stdout.once('drain', () => (this.#blocked = false));
  }

  leave(): void {
    for (const stop of this.#stops) stop();
    this.#io.stdout().write(LEAVE);
    if (this.#keys === null) return;
    this.#io.setRawMode(false);
    this.#keys.pause();
  }

  #enter(): void {
    if (this.#keys !== null) this.#io.setRawMode(true);
    this.#io.stdout().write(ENTER);
  }
}
