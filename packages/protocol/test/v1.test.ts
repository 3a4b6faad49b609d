import { describe, expect, it } from 'vitest';
import { v1, validate } from '../src/index.ts';
import { record } from './values.ts';

const accepts = (schema: Parameters<typeof validate>[0], value: unknown): boolean => schema.safeParse(value).success;

describe('requests of /v1', () => {
  it('ignore unknown fields, take numbers as text, and null for what is left out', () => {
    const body = { label: null, count: '3', memory_mb: '64', gpu_count: null, unknown: { a: 1 } };
    expect(validate(v1.createSandboxBody, body)).toEqual({ label: null, count: 3, memory_mb: 64, gpu_count: null });
    expect(validate(v1.createSandboxBody, {})).toEqual({});
  });

  it.each([
    { count: 0 },
    { count: 11 },
    { label: 'x'.repeat(201) },
    { size: 'huge' },
    { lifetime_minutes: 0 },
    { storage_gb: 0 },
    { workspace_mb: 0 },
    { memory_mb: 15 },
    { pids: 1 },
    { cpus: 0.001 },
    { inodes: 63 },
    { cpus: 0 },
    { workspace: 'ram' },
  ])('a new sandbox refuses %j', (body) => {
    expect(accepts(v1.createSandboxBody, body)).toBe(false);
  });

  it.each([
    [{ command: 'ls' }, true],
    [{ argv: ['ls'] }, true],
    [{ argv: ['ls'], command: 'ls' }, false],
    [{}, false],
    [{ command: '' }, false],
    [{ argv: [''] }, false],
    [{ command: 'a\0b' }, false],
    [{ command: 'ls', timeout: 0 }, false],
    [{ command: 'ls', timeout: v1.maxExecTimeoutSeconds }, true],
    [{ command: 'ls', timeout: v1.maxExecTimeoutSeconds + 1 }, false],
    [{ command: 'ls', timeout: null }, true],
    [{ command: 'ls', timeout: 0.5 }, true],
    [{ command: 'ls', stdin: 'a', stdin_base64: 'YQ==' }, false],
    [{ command: 'ls', stdin_base64: 'YQ=' }, false],
    [{ command: 'ls', env: { 'A=B': 'c' } }, false],
  ])('an exec of %j: %s', (body, expected) => {
    expect(accepts(v1.execBody, body)).toBe(expected);
    expect(accepts(v1.startExecBody, body)).toBe(expected);
  });

  it('a signal is given, or all', () => {
    expect(accepts(v1.signalBody, {})).toBe(false);
    expect(accepts(v1.signalBody, { signal: 'SIGTERM' })).toBe(true);
    expect(accepts(v1.signalBody, { all: true })).toBe(true);
    expect(accepts(v1.signalBody, { all: true, signal: 'SIGTERM' })).toBe(false);
  });

  it('a mode is octal', () => {
    expect(validate(v1.writeQuery, { path: 'a', mode: '0644', parents: 'false' })).toEqual({
      path: 'a',
      mode: 0o644,
      parents: false,
    });
    expect(accepts(v1.writeQuery, { path: 'a', mode: '0888' })).toBe(false);
    expect(accepts(v1.writeQuery, { path: 'a', mode: '4755' })).toBe(false);
  });
});

it('the answer to an exec has both meanings of the exit code', () => {
  const answer = { ...record, exit_status: null, exit_code: 137, stdout: '', stderr: '' };
  const whole = { ...answer, stdout_truncated: false, stderr_truncated: false };
  expect(accepts(v1.execAnswer, whole)).toBe(true);
  expect(accepts(v1.execAnswer, { ...whole, exit_code: null })).toBe(false);
});
