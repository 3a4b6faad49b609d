/** Scales what a row measures; pure. */

/** Calls of a round: never fewer than two, which a baseline needs to be set against itself. */
export function amountOfCalls(full: number, scale: number): number {
  return Math.max(2, Math.round(full * scale));
}
