import { Buffer } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { encodePayload, layouts } from './layouts.ts';
import { vectorCases } from './vector-cases.ts';

/** Where the vector file of both languages is. */
export const vectorFile = new URL('../../../../docs/reference/runner-protocol-vectors.tsv', import.meta.url);

export interface Vector {
  readonly name: string;
  readonly type: number;
  readonly request: number;
  readonly payload: Buffer;
  readonly fields: Readonly<Record<string, string>>;
}

/** The text of the vector file, from the cases. */
export function writeVectors(): string {
  const lines = vectorCases.map(({ name, layout, request, fields }) => {
    const type = layouts[layout].type.toString(16).padStart(2, '0');
    return [name, type, request, encodePayload(layout, fields).toString('hex'), JSON.stringify(fields)].join('\t');
  });
  return `${lines.join('\n')}\n`;
}

/** The committed vectors. */
export function readVectors(): Vector[] {
  return readFileSync(vectorFile, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => {
      const [name = '', type = '', request = '', payload = '', fields = ''] = line.split('\t');
      return {
        name,
        type: Number.parseInt(type, 16),
        request: Number(request),
        payload: Buffer.from(payload, 'hex'),
        fields: JSON.parse(fields) as Record<string, string>,
      };
    });
}
