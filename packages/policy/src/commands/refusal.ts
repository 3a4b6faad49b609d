/** Ends a judgement. Never leaves the package: `judgeCommand` turns it into a verdict. */
export class Refusal extends Error {
  /** Index in the text that was judged, in UTF-16 units; `null` where the whole text is meant. */
  at: number | null;
  /** Name of the program that is refused, where it is one. */
  readonly program: string | null;

  /** @param reason What to change, in words for the author of the command. */
  constructor(reason: string, at: number | null, program: string | null = null) {
    super(reason);
    this.name = 'Refusal';
    this.at = at;
    this.program = program;
  }
}

const LONGEST_QUOTE = 40;

/** A part of the command for a message: short, and without control characters. */
export function quote(text: string): string {
  const cut = text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}…` : text;
  const visible = Array.from(cut, (character) => (isControl(character.charCodeAt(0)) ? '\u{fffd}' : character));
  return `\`${visible.join('')}\``;
}

/** Whether a code unit is a control character, those from U+0080 on included. */
export function isControl(unit: number): boolean {
  return unit < 0x20 || (unit >= 0x7f && unit < 0xa0);
}
