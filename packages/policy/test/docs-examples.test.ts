/** The examples of docs/reference/policy are run: each line of a block `json lines` is a call and its answer. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  compileAllowlist,
  createByteRedactor,
  createRedactor,
  judgeCommand,
  judgeDestination,
  type PathOperation,
  resolveSandboxPath,
} from '../src/index.ts';

const folder = new URL('../../../docs/reference/policy/', import.meta.url);

function blocks(page: string, language: string): string[] {
  const text = readFileSync(new URL(page, folder), 'utf8');
  return [...text.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm)]
    .filter(([, info]) => info === language)
    .map(([, , body]) => body ?? '');
}

function examples<T>(page: string): T[] {
  const lines = blocks(page, 'json lines').flatMap((block) => block.trimEnd().split('\n'));
  expect(lines.length).toBeGreaterThan(5);
  return lines.map((line) => JSON.parse(line) as T);
}

describe('examples of the policy pages', () => {
  it('are of five pages; those of the kernel are run in sandboxes', () => {
    expect(readdirSync(folder).toSorted()).toEqual([
      'commands.md',
      'destinations.md',
      'kernel.md',
      'paths.md',
      'redaction.md',
    ]);
  });

  it('commands', () => {
    for (const { allowed, command, ...answer } of examples<{ allowed: unknown[]; command: string }>('commands.md')) {
      expect(judgeCommand(allowed, command), command).toMatchObject(answer);
    }
    const lists = blocks('commands.md', 'json').map((text) => compileAllowlist(JSON.parse(text)));
    expect(lists.map(({ enforce, programs }) => [enforce, ...programs])).toEqual([
      ['kernel', 'ls', 'grep', 'git', 'npm'],
    ]);
  });

  it('redaction', () => {
    for (const { known, text, output } of examples<{ known: Record<string, string>; text: string; output: string }>(
      'redaction.md',
    )) {
      const redactor = createRedactor(known);
      expect(redactor.push(text) + redactor.flush()).toBe(output);
      const bytes = createByteRedactor(known);
      expect(Buffer.concat([bytes.push(Buffer.from(text)), bytes.flush()]).toString()).toBe(output);
    }
  });

  it('destinations', () => {
    type Request = Parameters<typeof judgeDestination>[0] & { verdict: string; reason?: string };
    for (const { verdict, reason, ...request } of examples<Request>('destinations.md')) {
      expect(judgeDestination(request), request.host).toMatchObject({ verdict, ...(reason && { reason }) });
    }
  });

  it('paths', () => {
    for (const { path, op, answer } of examples<{ path: string; op: PathOperation; answer: object }>('paths.md')) {
      expect(resolveSandboxPath(path, op)).toMatchObject(answer);
    }
  });
});
