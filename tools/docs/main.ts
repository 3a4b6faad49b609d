/** `make docs`: writes the pages that are made from code. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { errorRegistry } from '@boxkite/protocol';
import { errorReference } from './error-reference.ts';
import { openApiReference, sidecarReference } from './openapi.ts';

const reference = join(import.meta.dirname, '..', '..', 'docs', 'reference');
mkdirSync(join(reference, 'sidecar'), { recursive: true });
writeFileSync(join(reference, 'errors.md'), errorReference(errorRegistry));
writeFileSync(join(reference, 'openapi.json'), await openApiReference());
writeFileSync(join(reference, 'sidecar', 'openapi.json'), await sidecarReference());
