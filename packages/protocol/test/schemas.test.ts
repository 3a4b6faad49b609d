import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  BoxkiteError,
  type Effective,
  type ExecRecord,
  effectiveSchema,
  execRecordSchema,
  execRequestSchema,
  sandboxSpecSchema,
  validate,
} from '../src/index.ts';

/** `details` of the refusal. */
function refusal(schema: z.ZodType, value: unknown): BoxkiteError {
  try {
    validate(schema, value);
  } catch (error) {
    if (error instanceof BoxkiteError) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

const effective: Effective = {
  init: 'own',
  user: { uid: 1001, gid: 1001, host_uid: 1_878_983_657, groups: 0 },
  capabilities: {
    inheritable: '0000000000000000',
    permitted: '0000000000000000',
    effective: '0000000000000000',
    bounding: '0000000000000000',
    ambient: '0000000000000000',
  },
  no_new_privs: true,
  seccomp: 'filter',
  seccomp_filters: 1,
  landlock: 4,
  namespaces: { user: 1, net: 2 },
  layers: { seccomp: true, devices: false },
  memory: { via: 'none', bytes: null },
  processes: { via: 'cgroup_v2', max: 256 },
  cpu: { via: 'none', cores: null },
  workspace: { bytes: 1, inodes: 1, via: 'tmpfs' },
  network: 'none',
  programs: { enforced: 'none', count: 0, via: [] },
  descriptors: [0, 1, 2],
};

const record: ExecRecord = {
  exec_id: '9',
  end: 'signaled',
  exit_code: null,
  signal: 'SIGSEGV',
  reason: null,
  stdout_bytes: 0,
  stderr_bytes: 5,
  duration_ms: 1.234,
  usage: { cpu_ms: null, memory_peak_bytes: 4096 },
  effective,
};

describe('execRequestSchema', () => {
  it('takes a whole request as it is, and drops what it does not know', () => {
    const request = {
      argv: ['printf', '%s', ''],
      cwd: '/tmp',
      env: { A: 'b=c', EMPTY: '' },
      stdin: new Uint8Array([1, 2]),
      tty: { columns: 80, rows: 24 },
      timeout_ms: 5,
      limits: { memory_mb: 1, pids: 2, cpu_ms: 3, output_bytes: 0 },
      overflow: 'block',
      fresh: true,
    };
    expect(validate(execRequestSchema, { ...request, unknown: 1 })).toEqual(request);
    expect(validate(execRequestSchema, { argv: ['a'], stdin: 'stream' })).toEqual({ argv: ['a'], stdin: 'stream' });
  });

  it('takes decimal text for numbers', () => {
    expect(validate(execRequestSchema, { argv: ['a'], timeout_ms: '1500', limits: { pids: '7' } })).toEqual({
      argv: ['a'],
      timeout_ms: 1500,
      limits: { pids: 7 },
    });
    for (const bad of ['', ' 1', '1e3', '0x10', 'NaN', 'Infinity', true, null, [], '1.5', '-1', '9'.repeat(30)]) {
      expect(refusal(execRequestSchema, { argv: ['a'], timeout_ms: bad }).details['field']).toBe('timeout_ms');
    }
  });

  it.each([
    ['no arguments', { argv: [] }, 'argv'],
    ['an empty program', { argv: [''] }, 'argv'],
    ['a NUL byte', { argv: ['a', 'b\0'] }, 'argv.1'],
    ['half a character', { argv: ['\udc00'] }, 'argv.0'],
    ['text that is a number', { argv: [1] }, 'argv.0'],
    ['a NUL byte in a value', { argv: ['a'], env: { A: '\0' } }, 'env'],
    ['a NUL byte in a name', { argv: ['a'], env: { 'A\0': '' } }, 'env'],
    ['= in a name', { argv: ['a'], env: { 'A=': '' } }, 'env'],
    ['an empty name', { argv: ['a'], env: { '': '' } }, 'env'],
    ['an empty directory', { argv: ['a'], cwd: '' }, 'cwd'],
    ['a terminal of no size', { argv: ['a'], tty: { columns: 0, rows: 1 } }, 'tty.columns'],
    ['another overflow', { argv: ['a'], overflow: 'lose' }, 'overflow'],
    ['text as input', { argv: ['a'], stdin: 'text' }, 'stdin'],
    ['nothing', undefined, 'request'],
  ])('refuses %s and names the field', (_name, value, field) => {
    const error = refusal(execRequestSchema, value);
    expect([error.code, error.details['field']]).toEqual(['invalid_request', field]);
  });

  it('never repeats the input in its answer', () => {
    const secret = 'sk-very-secret';
    for (const value of [
      { argv: ['a'], env: { A: `${secret}\0` } },
      { argv: [`${secret}\0`] },
      { argv: ['a'], env: { [`${secret}=`]: '' } },
      { argv: ['a'], timeout_ms: secret },
      { argv: ['a'], overflow: secret },
    ]) {
      expect(JSON.stringify(refusal(execRequestSchema, value))).not.toContain(secret);
    }
  });

  it('accepts or refuses anything, and throws nothing else', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        try {
          validate(execRequestSchema, value);
        } catch (error) {
          expect(error).toBeInstanceOf(BoxkiteError);
        }
      }),
    );
  });
});

describe('sandboxSpecSchema', () => {
  it('takes nothing, everything, and numbers as text', () => {
    expect(validate(sandboxSpecSchema, {})).toEqual({});
    const spec = {
      rootfs: '/r',
      copy: '.',
      memory_mb: 512,
      pids: 64,
      cpus: 0.5,
      workspace_mb: 10,
      inodes: 1000,
      fresh: false,
    };
    expect(validate(sandboxSpecSchema, spec)).toEqual(spec);
    expect(validate(sandboxSpecSchema, { cpus: '1.5' })).toEqual({ cpus: 1.5 });
  });

  it.each([
    ['memory_mb', 0],
    ['pids', 1.5],
    ['cpus', 0],
    ['cpus', -1],
    ['inodes', 2 ** 33],
    ['rootfs', ''],
    ['copy', 'a\0'],
  ])('refuses %s of %s', (field, value) => {
    expect(refusal(sandboxSpecSchema, { [field]: value }).details['field']).toBe(field);
  });
});

describe('the schemas of answers', () => {
  it('take what was measured and what was recorded', () => {
    expect(validate(effectiveSchema, effective)).toEqual(effective);
    expect(validate(execRecordSchema, record)).toEqual(record);
    expect(validate(effectiveSchema, { ...effective, namespaces: {}, layers: {} })).toMatchObject({
      namespaces: {},
      layers: {},
    });
  });

  it('refuse another end and capabilities that are not sets', () => {
    expect(refusal(execRecordSchema, { ...record, end: 'gone' }).details['field']).toBe('end');
    const capabilities = { ...effective.capabilities, bounding: '0' };
    expect(refusal(effectiveSchema, { ...effective, capabilities }).details['field']).toBe('capabilities.bounding');
  });
});

describe('descriptions', () => {
  it.each([
    ['ExecRequest', execRequestSchema],
    ['SandboxSpec', sandboxSpecSchema],
    ['ExecRecord', execRecordSchema],
    ['Effective', effectiveSchema],
  ])('every field of %s has one', (_name, schema) => {
    const json = z.toJSONSchema(schema, { unrepresentable: 'any', io: 'output' });
    const fields = Object.entries(json.properties ?? {});
    expect(fields.length).toBeGreaterThan(5);
    for (const [name, field] of fields) {
      expect([name, typeof field === 'object' && (field.description ?? '').length > 5]).toEqual([name, true]);
    }
  });
});
