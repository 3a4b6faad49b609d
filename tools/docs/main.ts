/** `make docs`: writes the pages that are made from code. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { errorRegistry } from '@boxkite/protocol';
import { errorReference } from './error-reference.ts';

const reference = join(import.meta.dirname, '..', '..', 'docs', 'reference');
mkdirSync(reference, { recursive: true });
writeFileSync(join(reference, 'errors.md'), errorReference(errorRegistry));
