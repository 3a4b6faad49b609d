/** Answers of services of the deployment: as many bytes of them as there is room for. */

/** The whole body; `null` where it is longer, and the rest of it is then cancelled. Errors: of the connection. */
export async function boundedBytes({ body }: Response, most: number): Promise<Buffer | null> {
  const parts: Uint8Array[] = [];
  let length = 0;
  const bytes: AsyncIterable<Uint8Array> | null = body;
  for await (const part of bytes ?? []) {
    length += part.length;
    if (length > most) return null;
    parts.push(part);
  }
  return Buffer.concat(parts);
}
