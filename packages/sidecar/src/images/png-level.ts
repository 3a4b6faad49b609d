/** The pixels of a PNG, packed again at a chosen level. */
import { crc32, deflateSync, inflateSync } from 'node:zlib';

const SIGNATURE_BYTES = 8;
/** Length, type and checksum of a chunk. */
const CHUNK_BYTES = 12;

/** Takes a PNG that was just encoded. Level: 0 (none) to 9. */
export function recompressPng(png: Buffer, level: number): Buffer {
  const out: Buffer[] = [png.subarray(0, SIGNATURE_BYTES)];
  const data: Buffer[] = [];
  for (let at = SIGNATURE_BYTES; at + CHUNK_BYTES <= png.length; ) {
    const length = png.readUInt32BE(at);
    const type = png.toString('latin1', at + 4, at + 8);
    const chunk = png.subarray(at, at + CHUNK_BYTES + length);
    if (type === 'IDAT') data.push(png.subarray(at + 8, at + 8 + length));
    else {
      // What was collected stands before the first chunk behind it.
      if (data.length > 0) out.push(chunkOf('IDAT', deflateSync(inflateSync(Buffer.concat(data)), { level })));
      data.length = 0;
      out.push(chunk);
    }
    at += CHUNK_BYTES + length;
  }
  return Buffer.concat(out);
}

function chunkOf(type: string, data: Buffer): Buffer {
  const out = Buffer.alloc(CHUNK_BYTES + data.length);
  out.writeUInt32BE(data.length, 0);
  out.write(type, 4, 'latin1');
  data.copy(out, 8);
  out.writeUInt32BE(crc32(out.subarray(4, 8 + data.length)), 8 + data.length);
  return out;
}
