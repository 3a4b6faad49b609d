/** Each layer left out in turn: the suite must notice, and `effective` must show it. What is not noticed there proves nothing here. */
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import type { Effective } from '@boxkite/protocol';
import {
  type HostTargets,
  hostNamespace,
  lane,
  makePlace,
  nativeProgram,
  python,
  RUNNER_PATH,
  runnerArguments,
  startRunner,
  startTargets,
  type TestRunner,
  type TestSandbox,
} from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { attack } from './support/attack.ts';
import { observe, postureViolations } from './support/posture.ts';
import { systemCallViolations, tryInside, tryOnHost } from './support/system-calls.ts';

/** One layer, what notices that it is gone, and how `effective` says so. */
interface Case {
  readonly weaken: readonly string[];
  /** Whether the suite's check fails in this sandbox. */
  readonly noticed: (sandbox: TestSandbox, targets: HostTargets) => Promise<boolean>;
  readonly shown: (effective: Effective) => boolean;
}

const reached = async (sandbox: TestSandbox, name: string, args: readonly string[] = []): Promise<boolean> =>
  (await attack(sandbox, name, args, { cwd: '/' })).reached;
const posture = async (sandbox: TestSandbox, about: RegExp): Promise<boolean> =>
  postureViolations(await observe(sandbox), sandbox.effective, lane).some((violation) => about.test(violation));

const CASES: readonly Case[] = [
  {
    weaken: ['mounts'],
    // A file of every Debian host that everybody may read, and that lies under none of the five roots.
    noticed: async (sandbox) =>
      (await reached(sandbox, 'read_path', ['/var/lib/dpkg/status'])) && (await reached(sandbox, 'root_is_writable')),
    shown: (effective) => effective.layers.read_only_root === false,
  },
  {
    weaken: ['proc'],
    noticed: (sandbox) => reached(sandbox, 'see_others'),
    shown: (effective) => effective.layers.proc_masks === false || effective.layers.other_processes === false,
  },
  {
    weaken: ['net'],
    noticed: async (sandbox, targets) =>
      (await reached(sandbox, 'connect_tcp', [String(targets.tcpPort)])) &&
      (await posture(sandbox, /own net namespace/)),
    shown: (effective) =>
      effective.network === 'host' &&
      effective.layers.network === false &&
      effective.namespaces.net === hostNamespace('net'),
  },
  {
    weaken: ['net', 'landlock'],
    noticed: (sandbox, targets) => reached(sandbox, 'connect_unix', [targets.abstract]),
    shown: (effective) => effective.landlock === 0,
  },
  {
    weaken: ['landlock'],
    noticed: async (sandbox) =>
      sandbox.effective.landlock === 0 && (await posture(sandbox, /effective layer landlock/)),
    shown: (effective) => effective.landlock === 0 && effective.layers.landlock !== true,
  },
  {
    weaken: ['seccomp'],
    noticed: async (sandbox) =>
      (await posture(sandbox, /Seccomp/)) &&
      (await reached(sandbox, 'kernel_interfaces')) &&
      (await reached(sandbox, 'new_namespaces')) &&
      (await reached(sandbox, 'socket_families')),
    shown: (effective) => effective.seccomp === 'none' && effective.layers.seccomp === false,
  },
  {
    weaken: ['caps'],
    noticed: async (sandbox) => (await reached(sandbox, 'capabilities')) && (await posture(sandbox, /CapBnd/)),
    shown: (effective) => BigInt(`0x${effective.capabilities.bounding}`) !== 0n,
  },
  {
    // The kernel takes a filter without privileges only behind no_new_privs, so this one takes that one along.
    weaken: ['no_new_privs', 'seccomp'],
    noticed: async (sandbox) => (await reached(sandbox, 'no_new_privs')) && (await posture(sandbox, /NoNewPrivs/)),
    shown: (effective) => !effective.no_new_privs,
  },
  { weaken: ['pids'], noticed: breaksProcessLimit, shown: (effective) => effective.processes.via === 'none' },
];

/** Only root has both: host ids to fall back to, and cgroups whose limit can be left out. */
const CASES_OF_ROOT: readonly Case[] = [
  {
    weaken: ['user'],
    noticed: (sandbox) => posture(sandbox, /own user namespace/),
    shown: (effective) =>
      effective.namespaces.user === undefined || effective.namespaces.user === hostNamespace('user'),
  },
  { weaken: ['memory'], noticed: breaksMemoryLimit, shown: (effective) => effective.memory.via === 'none' },
];

async function breaksProcessLimit(sandbox: TestSandbox): Promise<boolean> {
  const source =
    'import os, signal\ncount = 0\nfor _ in range(300):\n    try: pid = os.fork()\n    except OSError: break\n    if pid == 0: signal.pause()\n    count += 1\nprint(count)';
  return Number((await python(sandbox, source)).stdout) > 256;
}

async function breaksMemoryLimit(sandbox: TestSandbox): Promise<boolean> {
  const { stdout } = await python(
    sandbox,
    'x = bytearray(1200 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint("done")',
  );
  return stdout === 'done\n';
}

describe(`weakened twin, ${lane}`, () => {
  let targets: HostTargets;
  let shipped: TestRunner;
  let strong: TestSandbox;

  beforeAll(async () => {
    targets = await startTargets();
    shipped = await startRunner();
    strong = await shipped.create();
  });
  afterAll(async () => {
    await shipped?.[Symbol.asyncDispose]();
    await targets?.[Symbol.asyncDispose]();
  });

  it.each([...CASES, ...(lane === 'root' ? CASES_OF_ROOT : [])])(
    'notices that $weaken is left out',
    async ({ weaken, noticed, shown }) => {
      expect(await noticed(strong, targets), 'the shipped runner').toBe(false);
      expect(shown(strong.effective), 'effective of the shipped runner').toBe(false);
      await using runner = await startRunner({ weaken });
      await using sandbox = await runner.create();
      expect(await noticed(sandbox, targets), 'the check in the twin').toBe(true);
      expect(shown(sandbox.effective), `effective of the twin: ${JSON.stringify(sandbox.effective)}`).toBe(true);
    },
  );

  it('notices by the table of system calls that the filter is left out', async () => {
    await using runner = await startRunner({ weaken: ['seccomp'] });
    await using sandbox = await runner.create();
    expect(systemCallViolations(await tryInside(sandbox), tryOnHost()).length).toBeGreaterThan(30);
  });

  it('is as strong as the shipped one while nothing is left out', async () => {
    await using runner = await startRunner({ weaken: [] });
    await using sandbox = await runner.create();
    expect(postureViolations(await observe(sandbox), sandbox.effective, lane)).toEqual([]);
  });
});

describe('the shipped runner', () => {
  it.each([
    'mounts',
    'user',
    'proc',
    'net',
    'pids',
    'memory',
    'seccomp',
    'landlock',
    'caps',
    'no_new_privs',
    'programs',
    '',
  ])('refuses --weaken %s', (layer) => {
    const place = makePlace(false);
    try {
      for (const flag of [['--weaken', layer], [`--weaken=${layer}`]]) {
        const ended = spawnSync(place.runner, [...runnerArguments(place.directory, place.agent, {}), ...flag], {
          stdio: ['ignore', 'pipe', 'pipe', 'ignore'],
          encoding: 'utf8',
          timeout: 10_000,
          env: { PATH: RUNNER_PATH },
        });
        expect(ended.signal).toBeNull();
        expect(ended.status).toBeGreaterThan(0);
        expect(ended.stderr).toMatch(/^boxkite-runner: /);
      }
    } finally {
      rmSync(place.base, { recursive: true, force: true });
    }
  });

  it('has no code that leaves a layer out', () => {
    expect(readFileSync(nativeProgram('runner-weakened')).includes('--weaken')).toBe(true);
    expect(readFileSync(nativeProgram('boxkite-runner')).includes('--weaken')).toBe(false);
  });
});
