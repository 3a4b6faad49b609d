/** How long tests wait where the machine is slow: every bound on time is a multiple of what the machine takes. */

function readSlowness(): number {
  const text = process.env['BOXKITE_SLOWNESS'];
  const value = text === undefined ? 1 : Number(text);
  if (!(value >= 1 && value <= 100)) throw new TypeError('BOXKITE_SLOWNESS must be a number from 1 to 100');
  return value;
}

/** How many times longer things take here than on a machine of its own processors: `BOXKITE_SLOWNESS`, default 1. */
export const slowness: number = readSlowness();

/** A bound in milliseconds, as it is on this machine. */
export function within(ms: number): number {
  return ms * slowness;
}
