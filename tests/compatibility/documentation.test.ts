/** The example of docs/reference/compatibility.md, run as it is. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startSidecar } from '@boxkite/testing';
import { expect, it } from 'vitest';
import { installedClient } from './support/published.ts';

const PAGE = join(import.meta.dirname, '..', '..', 'docs', 'reference', 'compatibility.md');

function block(language: string): string {
  const found = readFileSync(PAGE, 'utf8').match(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``));
  if (found?.[1] === undefined) throw new Error(`the page has no block of ${language}`);
  return found[1];
}

it('prints what the page says', { timeout: 120_000 }, async () => {
  await using sidecar = await startSidecar();
  const { url, token } = sidecar;
  const env = { RUNTIME_MODE: 'compose', SIDECAR_URL: url, SIDECAR_AUTH_TOKEN: token, HOME: '/nonexistent' };
  const python = join(installedClient(), 'bin', 'python');
  const { stdout } = await promisify(execFile)(python, ['-c', block('python')], { env });
  expect(stdout).toBe(block('text'));
});
