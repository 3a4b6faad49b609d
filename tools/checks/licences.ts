/**
 * Licences and sources of every dependency, npm and cargo. Prints one line for each that is not allowed and exits
 * with 1. Stands in for cargo-deny, whose advisory database can't be had on every machine.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { isAccepted } from './spdx.ts';

const root = join(import.meta.dirname, '..', '..');

/** Licences that ask for no more than their notice to be kept. */
const permissive = new Set([
  '0BSD',
  'Apache-2.0',
  'Apache-2.0 WITH LLVM-exception',
  'Artistic-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'CC0-1.0',
  'ISC',
  'MIT',
  'Unicode-3.0',
  'Unlicense',
  'Zlib',
]);
/** Tools that are never part of what is shipped may also ask for their own changed files to be published. */
const forTools = new Set([...permissive, 'MPL-2.0', 'Python-2.0', 'CC-BY-4.0', 'CC-BY-3.0']);

/** Packages of a lockfile that predate the field `license` of a manifest: what their own licence file says. */
const statedInFile: Readonly<Record<string, string>> = { 'qrcode-terminal@0.12.0': 'Apache-2.0' };

const cratesIndex = /^registry\+https:\/\/github\.com\/rust-lang\/crates\.io-index$/;

const cargoMetadata = z.object({
  packages: z.array(
    z.object({
      name: z.string(),
      version: z.string(),
      license: z.string().nullable(),
      source: z.string().nullable(),
    }),
  ),
});

const npmLock = z.object({
  packages: z.record(
    z.string(),
    z.object({
      version: z.string().optional(),
      license: z.string().optional(),
      resolved: z.string().optional(),
      integrity: z.string().optional(),
      link: z.boolean().optional(),
      dev: z.boolean().optional(),
      inBundle: z.boolean().optional(),
    }),
  ),
});

function cargoFaults(): string[] {
  const args = ['metadata', '--format-version', '1', '--locked'];
  const text = execFileSync('cargo', args, {
    cwd: join(root, 'runner'),
    encoding: 'utf8',
    maxBuffer: 64 << 20,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const faults: string[] = [];
  for (const found of cargoMetadata.parse(JSON.parse(text)).packages) {
    const id = `crate ${found.name} ${found.version}`;
    if (found.license === null || !isAccepted(found.license, permissive)) {
      faults.push(`${id}: licence ${found.license ?? 'not stated'} is not on the list of tools/checks/licences.ts`);
    }
    if (found.source !== null && !cratesIndex.test(found.source)) {
      faults.push(`${id}: comes from ${found.source}, only the crates index is allowed`);
    }
  }
  return faults;
}

function npmFaults(lockfile: string, shipped: boolean): string[] {
  const lock = npmLock.parse(JSON.parse(readFileSync(join(root, lockfile), 'utf8')));
  const faults: string[] = [];
  for (const [path, found] of Object.entries(lock.packages)) {
    if (!path.includes('node_modules/') || found.link === true) continue;
    const id = `${lockfile}: ${path} ${found.version ?? ''}`;
    const name = `${path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)}@${found.version ?? ''}`;
    const licence = found.license ?? statedInFile[name];
    const accepted = shipped && found.dev !== true ? permissive : forTools;
    if (licence === undefined || !isAccepted(licence, accepted)) {
      faults.push(`${id}: licence ${licence ?? 'not stated'} is not on the list of tools/checks/licences.ts`);
    }
    // Without `resolved` npm takes the configured registry; the hash then says what may come from there.
    if (found.resolved !== undefined) faults.push(`${id}: records where it came from; run make lock`);
    if (found.integrity === undefined && found.inBundle !== true) faults.push(`${id}: has no integrity hash`);
  }
  return faults;
}

const faults = [
  ...cargoFaults(),
  ...npmFaults('package-lock.json', true),
  ...npmFaults('tools/node/package-lock.json', false),
];
for (const fault of faults) console.log(fault);
process.exitCode = faults.length === 0 ? 0 : 1;
