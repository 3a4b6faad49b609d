/** What is hidden, and where: everything that leaves a session as text passes one of these. */
import { type ByteRedactor, createByteRedactor, createRedactor, hideSecrets, type Redactor } from '@boxkite/policy';
import type { KnownSecrets } from './known-secrets.ts';

/** Of one session. Files as bytes, archives, presented files and what is stored pass none of it: they are never altered. */
export class Redaction {
  readonly #secrets: KnownSecrets;

  constructor(secrets: KnownSecrets) {
    this.#secrets = secrets;
  }

  /** Text that a program wrote, or that may repeat it: known values, credentials by their format and by their label. */
  output(text: string): string {
    return hideSecrets(text, this.#secrets.known);
  }

  /** The same for a stream of bytes, with the values that are known now. */
  stream(): ByteRedactor {
    return createByteRedactor(this.#secrets.known);
  }

  /**
   * A line of a file that is shown without those around it, of which a value may have several: known values alone, so that an
   * edit after it finds what it names. `isCut`: its end is not there.
   */
  shownLine(line: string, isCut: boolean): string {
    let shown = line;
    for (const known of [this.#secrets.known, ...this.#secrets.lines]) {
      // What may be the beginning of a value is not shown.
      shown = isCut
        ? createRedactor(known, { patterns: false }).push(shown)
        : hideSecrets(shown, known, { patterns: false });
    }
    return shown;
  }

  /** The same for a whole text in pieces, with the values that are known now; where it is cut, what is held back is not shown. */
  showing(): Redactor {
    return createRedactor(this.#secrets.known, { patterns: false });
  }
}
