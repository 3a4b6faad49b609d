import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readZipMember, ZipError } from './zip.ts';

const MAKE = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    archive.writestr("first", "one", zipfile.ZIP_STORED)
    archive.writestr("dir/second", "two" * 1000, zipfile.ZIP_DEFLATED)
    archive.comment = b"a comment"
`;

function makeArchive(): Buffer {
  const directory = mkdtempSync(join(tmpdir(), 'boxkite-zip-'));
  try {
    execFileSync('/usr/bin/python3', ['-c', MAKE, join(directory, 'a.zip')]);
    return readFileSync(join(directory, 'a.zip'));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test('members of an archive that Python made are read by name', () => {
  const archive = makeArchive();
  expect(readZipMember(archive, 'first').toString()).toBe('one');
  expect(readZipMember(archive, 'dir/second').toString()).toBe('two'.repeat(1000));
});

test('what is no archive, lacks the member or is damaged is refused', () => {
  const archive = makeArchive();
  expect(() => readZipMember(archive, 'third')).toThrow(ZipError);
  expect(() => readZipMember(Buffer.from('text'), 'first')).toThrow(ZipError);
  const damaged = Buffer.from(archive);
  damaged.fill(0, 0, 30);
  expect(() => readZipMember(damaged, 'first')).toThrow(ZipError);
});
