/** The numbers of four decimal parts without leading zeros; `undefined` for any other spelling. */
export function parseIpv4(text: string): readonly number[] | undefined {
  const parts = text.split('.');
  if (parts.length !== 4 || !parts.every((part) => /^(?:0|[1-9][0-9]{0,2})$/.test(part))) return undefined;
  const numbers = parts.map(Number);
  return numbers.every((number) => number <= 255) ? numbers : undefined;
}

/** The eight groups of an IPv6 address without zone and brackets; `undefined` for any other text. */
export function parseIpv6(text: string): readonly number[] | undefined {
  if (text.length > 45 || !/^[0-9A-Fa-f:.]+$/.test(text)) return undefined;
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const [head = '', tail] = halves;
  const before = groupsOf(head, tail === undefined);
  const behind = tail === undefined ? [] : groupsOf(tail, true);
  if (before === undefined || behind === undefined) return undefined;
  const missing = 8 - before.length - behind.length;
  if (tail === undefined ? missing !== 0 : missing < 1) return undefined;
  return [...before, ...Array.from({ length: missing }, () => 0), ...behind];
}

/** Groups of four hexadecimal digits; the last two may be written as an IPv4 address. */
function groupsOf(text: string, mayEndInIpv4: boolean): number[] | undefined {
  if (text === '') return [];
  const groups: number[] = [];
  const parts = text.split(':');
  for (const [index, part] of parts.entries()) {
    if (part.includes('.')) {
      const inner = mayEndInIpv4 && index === parts.length - 1 ? parseIpv4(part) : undefined;
      if (inner === undefined) return undefined;
      const [a = 0, b = 0, c = 0, d = 0] = inner;
      groups.push(a * 256 + b, c * 256 + d);
    } else {
      if (!/^[0-9A-Fa-f]{1,4}$/.test(part)) return undefined;
      groups.push(Number.parseInt(part, 16));
    }
  }
  return groups;
}

/** Ranges that are not the public internet: first numbers, and bits of them that count. */
const PRIVATE_IPV4: readonly (readonly [address: readonly number[], bits: number])[] = [
  [[0, 0, 0, 0], 8],
  [[10, 0, 0, 0], 8],
  [[100, 64, 0, 0], 10],
  [[127, 0, 0, 0], 8],
  [[169, 254, 0, 0], 16],
  [[172, 16, 0, 0], 12],
  [[192, 0, 0, 0], 24],
  [[192, 0, 2, 0], 24],
  [[192, 88, 99, 0], 24],
  [[192, 168, 0, 0], 16],
  [[198, 18, 0, 0], 15],
  [[198, 51, 100, 0], 24],
  [[203, 0, 113, 0], 24],
  [[224, 0, 0, 0], 4],
  [[240, 0, 0, 0], 4],
  // The address at which a cloud answers its own machines, inside a public range.
  [[168, 63, 129, 16], 32],
];

const PRIVATE_IPV6: readonly (readonly [groups: readonly number[], bits: number])[] = [
  [[0x2001, 0], 23],
  [[0x2001, 0xdb8], 32],
  [[0x2002], 16],
  [[0x3fff, 0], 20],
];

/** Whether an IPv4 address is one of the public internet. */
export function isPublicIpv4(numbers: readonly number[]): boolean {
  return !PRIVATE_IPV4.some(([address, bits]) => hasPrefix(numbers, address, bits, 8));
}

/** Whether an IPv6 address is one of the public internet; of a mapped or translated one the inner address counts. */
export function isPublicIpv6(groups: readonly number[]): boolean {
  const inner = innerIpv4(groups);
  if (inner !== undefined) return isPublicIpv4(inner);
  if (!hasPrefix(groups, [0x2000], 3, 16)) return false;
  if (PRIVATE_IPV6.some(([prefix, bits]) => hasPrefix(groups, prefix, bits, 16))) return false;
  // The interface id of ISATAP, which carries an IPv4 address.
  return !(groups[5] === 0x5efe && (groups[4] === 0 || groups[4] === 0x200));
}

/** The IPv4 address in `::ffff:0:0/96` and `64:ff9b::/96`. */
export function innerIpv4(groups: readonly number[]): readonly number[] | undefined {
  const mapped = hasPrefix(groups, [0, 0, 0, 0, 0, 0xffff], 96, 16);
  if (!mapped && !hasPrefix(groups, [0x64, 0xff9b, 0, 0, 0, 0], 96, 16)) return undefined;
  return groups.slice(6).flatMap((group) => [group >> 8, group & 255]);
}

function hasPrefix(parts: readonly number[], prefix: readonly number[], bits: number, width: number): boolean {
  for (let at = 0; at * width < bits; at += 1) {
    const ignored = Math.max(0, (at + 1) * width - bits);
    if ((parts[at] ?? 0) >> ignored !== (prefix[at] ?? 0) >> ignored) return false;
  }
  return true;
}
