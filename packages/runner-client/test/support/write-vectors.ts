/** `node packages/runner-client/test/support/write-vectors.ts` writes the vector file anew after a change of the protocol. */
import { writeFileSync } from 'node:fs';
import { vectorFile, writeVectors } from './vectors.ts';

writeFileSync(vectorFile, writeVectors());
