/** A member of a test archive, hostile ones included. */
export interface TarMember {
  readonly name: string;
  /** The type letter of the format; '0' is a file. */
  readonly type?: string;
  readonly link?: string;
  readonly mode?: number;
  readonly body?: string;
  /** Announced instead of the body's length. */
  readonly size?: number;
}

function block(member: TarMember): Buffer {
  const out = Buffer.alloc(512);
  const body = Buffer.from(member.body ?? '');
  const octal = (value: number, at: number, width: number) =>
    out.write(`${value.toString(8).padStart(width - 1, '0')}\0`, at, 'latin1');
  out.write(member.name, 0, 100);
  octal(member.mode ?? 0o644, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(member.size ?? body.length, 124, 12);
  octal(1_700_000_000, 136, 12);
  out.write(' '.repeat(8), 148);
  out.write(member.type ?? '0', 156);
  out.write(member.link ?? '', 157, 100);
  out.write('ustar\x0000', 257, 'latin1');
  const sum = out.reduce((total, byte) => total + byte, 0);
  out.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  const padded = Buffer.alloc(Math.ceil(body.length / 512) * 512);
  body.copy(padded);
  return Buffer.concat([out, padded]);
}

/** The bytes of an archive. */
export function tarOf(...members: readonly TarMember[]): Buffer {
  return Buffer.concat([...members.map(block), Buffer.alloc(1024)]);
}
