/** The command line with a daemon, as a user calls it. */
import { execFileSync, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CuttingProxy, eventually, lane, startDaemon, type TestDaemon } from '@boxkite/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { CliOptions, CliOutcome, TerminalOutcome, TerminalStep } from './support/cli.ts';
import { cli, onTerminal, outcomeOf, startCli } from './support/cli.ts';

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\n$/;
const IS_LINE = /^boxkite: .+ \([a-z_]+\)\nhint: .+\n$/;

describe(`command line with a daemon, ${lane}`, () => {
  let daemon: TestDaemon;
  let env: Record<string, string> = {};
  let here = '';

  beforeAll(async () => {
    daemon = await startDaemon();
    env = { BOXKITE_URL: daemon.url };
  });
  afterAll(async () => {
    await daemon[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    here = mkdtempSync(join(tmpdir(), 'boxkite-cli-'));
  });
  afterEach(() => {
    rmSync(here, { recursive: true, force: true });
  });

  const bk = (args: readonly string[], options: CliOptions = {}): Promise<CliOutcome> =>
    cli(args, { ...options, env: { ...env, ...options.env } });
  const terminal = (steps: readonly TerminalStep[], args: readonly string[]): Promise<TerminalOutcome> =>
    onTerminal(steps, args, env);
  const text = async (args: readonly string[], options?: CliOptions): Promise<string> =>
    (await bk(args, options)).stdout.toString();
  const json = async (args: readonly string[]): Promise<unknown> => JSON.parse(await text(args));

  /** A new sandbox with a label of its own. */
  async function sandbox(...options: string[]): Promise<string> {
    const id = await text(['create', ...options]);
    expect(id).toMatch(UUID);
    return id.trim();
  }

  it('goes from create to rm, by label, by a beginning of the id, and by the id', async () => {
    const id = await sandbox('--label', 'flow', '--lifetime', '30');
    const listed = await json(['ls', '--json']);
    expect(listed).toMatchObject([
      { id, label: 'flow', state: 'ready', state_reason: null, workspace: { kind: 'tmpfs', kept: true } },
    ]);
    const done = await bk(['exec', 'flow', '--', 'sh', '-c', 'echo out; echo err >&2; exit 3']);
    expect(done).toMatchObject({ status: 3, stdout: Buffer.from('out\n'), stderr: 'err\n' });
    const exec = (await text(['exec', '-d', id.slice(0, 8), '--', 'sh', '-c', 'echo begun; exec sleep 600'])).trim();
    await eventually(
      async () => (await text(['logs', 'flow'])) === 'begun\n',
      10_000,
      () => 'the exec writes',
    );
    expect(await json(['ps', '--json'])).toMatchObject([{ sandbox_id: id, exec_id: exec, state: 'running' }]);
    expect((await bk(['kill', 'flow', exec])).status).toBe(0);
    expect(await json(['ps', '--json'])).toEqual([]);
    expect(await text(['ps', '--all', 'flow'])).toMatch(/exited 3 .+\n.+killed .+sleep 600/s);
    expect(await text(['rm', 'flow'])).toBe(`${id}\n`);
    expect(await json(['ls', '--json'])).toEqual([]);
    expect(await json(['ls', '--all', '--json'])).toEqual(
      expect.arrayContaining([expect.objectContaining({ id, state: 'destroyed' })]),
    );
    const again = await bk(['rm', id]);
    expect(again.status).toBe(2);
    expect(again.stderr).toContain('is destroyed');
  });

  describe('exec', () => {
    let id = '';
    beforeAll(async () => {
      id = await sandbox();
    });
    afterAll(async () => {
      await bk(['rm', id]);
    });

    it('passes large binary input and output on, byte for byte', async () => {
      // No ASCII letters: of five million bytes some would look like a password, which output never shows.
      const input = Buffer.from(
        randomBytes(5_000_003).map((byte) => (byte >= 0x40 && byte < 0x7f ? byte | 0x80 : byte)),
      );
      const { stdout, status } = await bk(['exec', id, '--', 'cat'], { input });
      expect(status).toBe(0);
      const hash = (data: Buffer): string => createHash('sha256').update(data).digest('hex');
      expect(hash(stdout)).toBe(hash(input));
    });

    it.each([
      [['no-such-program'], 127, 'command_not_found'],
      [['/etc/passwd'], 126, 'not_executable'],
    ])('%j ends with %i', async (argv, status, code) => {
      const outcome = await bk(['exec', id, '--', ...argv]);
      expect(outcome.status).toBe(status);
      expect(outcome.stderr).toMatch(IS_LINE);
      expect(outcome.stderr).toContain(`(${code})`);
    });

    it.each([
      ['closes its input', 'head -n 1; exec 0</dev/null; sleep 1'],
      ['ends', 'head -n 1'],
    ])('takes a command that %s before it has read all for no fault', async (_name, script) => {
      const input = Buffer.alloc(8 << 20, 'y\n');
      const outcome = await bk(['exec', id, '--', 'sh', '-c', script], { input });
      expect(outcome).toMatchObject({ status: 0, stdout: Buffer.from('y\n'), stderr: '' });
    });

    it('kills a command whose input is cut off on its way', async () => {
      await using proxy = await CuttingProxy.start(daemon.socket);
      proxy.cutRequest('/input', 2);
      const input = Buffer.alloc(1 << 20, 'y\n');
      const outcome = await bk(['exec', id, '--', 'wc', '-c'], {
        input,
        env: { BOXKITE_URL: `unix://${proxy.socket}`, BOXKITE_API_KEY: daemon.key() },
      });
      expect(outcome.stderr).toContain('(connection_lost)');
      expect(outcome.status).toBe(1);
      expect(proxy.cuts).toBe(1);
      // One that is given an end instead ends by itself.
      const record = expect.objectContaining({ end: 'killed', reason: 'requested' }) as unknown;
      expect(await json(['ps', '--all', '--json', id])).toEqual(
        expect.arrayContaining([expect.objectContaining({ argv: ['wc', '-c'], record })]),
      );
    });

    it('has cwd, variables and a time limit', async () => {
      const outcome = await bk(
        [
          'exec',
          '--cwd',
          '/tmp',
          '--env',
          'A=b c',
          '--timeout',
          '0.5',
          id,
          '--',
          'sh',
          '-c',
          'pwd; echo "$A"; sleep 60',
        ],
        { input: null },
      );
      expect(outcome.status).toBe(124);
      expect(outcome.stdout.toString()).toBe('/tmp\nb c\n');
      expect(outcome.stderr).toBe('boxkite: the command reached its time limit of 0.5 s and was killed\n');
    });

    it('prints the record with --json', async () => {
      const outcome = await bk(['exec', '--json', id, '--', 'sh', '-c', 'echo out; exit 4']);
      expect(outcome.status).toBe(4);
      expect(JSON.parse(outcome.stdout.toString())).toMatchObject({
        end: 'exited',
        exit_code: 4,
        stdout: 'out\n',
        effective: { network: 'none', no_new_privs: true },
      });
    });

    it('hands an interrupt on, and kills at the second signal', async () => {
      const polite = startCli(
        ['exec', id, '--', 'sh', '-c', 'trap "echo caught; exit 5" INT; echo ready; while :; do sleep 0.05; done'],
        { env },
      );
      await once(polite.stdout ?? polite, 'data');
      const ended = outcomeOf(polite);
      polite.kill('SIGINT');
      expect(await ended).toMatchObject({ status: 5, stdout: Buffer.from('caught\n') });
      const stubborn = startCli(
        ['exec', id, '--', 'sh', '-c', 'trap "" TERM; echo ready; while :; do sleep 0.05; done'],
        { env },
      );
      await once(stubborn.stdout ?? stubborn, 'data');
      const killed = outcomeOf(stubborn);
      stubborn.kill('SIGTERM');
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(stubborn.exitCode).toBeNull();
      stubborn.kill('SIGTERM');
      expect((await killed).status).toBe(143);
      expect(await json(['ps', '--json', id])).toEqual([]);
    });

    it('ends quietly when its reader has gone', async () => {
      const child = startCli(['exec', id, '--', 'yes'], { env });
      const head = spawn('head', ['-c', '10'], { stdio: [child.stdout ?? 'ignore', 'ignore', 'inherit'] });
      await once(head, 'close');
      child.stdout?.destroy();
      let stderr = '';
      child.stderr?.setEncoding('utf8').on('data', (part: string) => {
        stderr += part;
      });
      const ended: readonly unknown[] = await once(child, 'exit');
      expect(ended[0]).toBe(141);
      expect(stderr).toBe('');
      await eventually(
        async () => (await text(['ps', '--json', id])) === '[]\n',
        10_000,
        () => 'nothing of it runs',
      );
    });

    it('goes on where it was when Node is killed in the middle', async () => {
      const script = 'i=0; while [ $i -lt 400 ]; do echo "line $i"; i=$((i+1)); sleep 0.005; done; exit 9';
      const child = startCli(['exec', id, '--', 'sh', '-c', script], { env });
      const ended = outcomeOf(child);
      await once(child.stdout ?? child, 'data');
      await daemon.killNode();
      const outcome = await ended;
      const wanted = Array.from({ length: 400 }, (_, index) => `line ${index}\n`).join('');
      expect(outcome.stdout.toString()).toBe(wanted);
      expect(outcome).toMatchObject({ status: 9, stderr: '' });
    });

    it('follows logs to the end, and reads them from an offset', async () => {
      const exec = (await text(['exec', '-d', id, '--', 'sh', '-c', 'echo one; sleep 0.5; echo two'])).trim();
      expect(await text(['logs', '-f', id])).toBe('one\ntwo\n');
      expect(await text(['logs', '--stream', 'stdout', '--since-offset', '4', id, exec])).toBe('two\n');
      const lines = (await text(['logs', '--json', id, exec])).trimEnd().split('\n');
      expect(lines.map((line): unknown => JSON.parse(line))).toEqual(
        expect.arrayContaining([
          { type: 'output', stream: 'stdout', offset: 0, data: 'one\ntwo\n' },
          expect.objectContaining({ type: 'exit', exec_id: exec, end: 'exited', exit_code: 0 }),
        ]),
      );
    });

    it('says which bytes of long output are not kept', async () => {
      const exec = (await text(['exec', '-d', id, '--', 'head', '-c', '20000000', '/dev/zero'])).trim();
      await eventually(
        async () => (await text(['ps', '--json', id])) === '[]\n',
        20_000,
        () => 'it has ended',
      );
      const { stdout, stderr } = await bk(['logs', id, exec]);
      const [, from, to] = /^boxkite: bytes (\d+) to (\d+) of stdout are not kept\n$/.exec(stderr) ?? [];
      expect(stdout.length + Number(to) - Number(from)).toBe(20_000_000);
    });
  });

  describe('on a terminal', () => {
    let id = '';
    beforeAll(async () => {
      id = await sandbox('--label', 'terminal');
    });
    afterAll(async () => {
      await bk(['rm', id]);
    });

    it('gives a shell that knows the window, its changes and Ctrl-C, and leaves the terminal as it was', async () => {
      const steps = [
        { expect: `${id.slice(0, 8)}:~$ ` },
        { send: 'stty size; echo $TERM\r' },
        { expect: '30 90\r\nxterm\r\n' },
        { resize: [100, 40] },
        { send: 'until [ "$(stty size)" != "30 90" ]; do sleep 0.05; done; stty size\r' },
        { expect: '40 100\r\n' },
        // An interrupt between fork and exec would reach nobody.
        { send: "sh -c 'echo up; exec sleep 600'\r" },
        { expect: '\rup\r\n' },
        { send: '\x03' },
        { expect: '^C' },
        { send: 'echo status $?\r' },
        { expect: 'status 130\r\n' },
        { send: 'exit 6\r' },
      ] as const;
      expect(await terminal(steps, ['sh', 'terminal'])).toMatchObject({ status: 6, restored: true });
    });

    it.each([
      ['Ctrl-C', [{ expect: 'ready' }, { send: '\x03' }], ['sh', '-c', 'echo ready; exec sleep 60'], 130],
      ['SIGTERM', [{ expect: 'ready' }, { signal: 15 }], ['sh', '-c', 'echo ready; exec sleep 60'], 143],
      ['a command that is not there', [], ['no-such-program'], 127],
    ] as const)('sets the modes back after %s', async (_name, steps, argv, status) => {
      expect(await terminal(steps, ['exec', 'terminal', '--', ...argv])).toMatchObject({ status, restored: true });
    });

    it('turns off what a command that was killed has left on', async () => {
      const script = 'printf "\\033[?1049h\\033[?25lready"; exec sleep 60';
      const steps = [{ expect: 'ready' }, { signal: 15 }] as const;
      const { output, restored } = await terminal(steps, ['exec', 'terminal', '--', 'sh', '-c', script]);
      expect(output.endsWith('\x1b[?1049l\x1b[?25h\x1b[0m')).toBe(true);
      expect(restored).toBe(true);
    });

    it('shows what sandboxes use, live, also over a restart of Node, and leaves a sane terminal', async () => {
      const busy = (await text(['exec', '-d', id, '--', 'sh', '-c', 'while :; do :; done'])).trim();
      try {
        const steps: readonly TerminalStep[] = [
          { expect: '1 ready' },
          { expect: 'terminal' },
          { resize: [100, 20] },
          ...Array.from({ length: 5 }, () => ({ expect: '1-1 of 1' })),
          { send: 'q' },
        ];
        const running = terminal(steps, ['top']);
        await new Promise((resolve) => setTimeout(resolve, 2500));
        await daemon.killNode();
        const { output, status, restored } = await running;
        expect({ status, restored }).toEqual({ status: 0, restored: true });
        expect(output).toMatch(/^\x1b\[\?1049h\x1b\[\?25l/);
        expect(output.endsWith('\x1b[?25h\x1b[?1049l')).toBe(true);
        const sample = await json(['top', '--once', '--json']);
        expect(sample).toMatchObject({ sandboxes: [{ id, usage: { execs: 1 } }] });
      } finally {
        await bk(['kill', id, busy]);
      }
    });

    it('asks before it removes everything', async () => {
      const no = await terminal([{ expect: '[y/N] ' }, { send: 'n\r' }], ['rm', '--all']);
      expect(no.status).toBe(1);
      expect(no.output).toContain('Remove 1 sandbox: terminal?');
      const left = await terminal([{ expect: '[y/N] ' }, { send: '\x03' }], ['rm', '--all']);
      expect(left).toMatchObject({ status: 130, restored: true });
      expect(left.output).not.toContain('boxkite:');
      expect(await json(['ls', '--json'])).toHaveLength(1);
    });
  });

  describe('cp', () => {
    let id = '';
    beforeAll(async () => {
      id = await sandbox();
    });
    afterAll(async () => {
      await bk(['rm', id]);
    });

    it('copies files and streams both ways, byte for byte, with their modes', async () => {
      const data = randomBytes(3_000_001);
      writeFileSync(join(here, 'tool'), data, { mode: 0o755 });
      expect(await bk(['cp', join(here, 'tool'), `${id}:`])).toMatchObject({ status: 0, stderr: '' });
      expect(await text(['exec', id, '--', 'stat', '-c', '%a %s', 'tool'])).toBe('755 3000001\n');
      expect((await bk(['cp', `${id}:tool`, join(here, 'back')])).status).toBe(0);
      expect(readFileSync(join(here, 'back')).equals(data)).toBe(true);
      expect(lstatSync(join(here, 'back')).mode & 0o777).toBe(0o755 & ~process.umask());
      expect((await bk(['cp', '-', `${id}:piped`], { input: data })).status).toBe(0);
      expect((await bk(['cp', `${id}:piped`, '-'])).stdout.equals(data)).toBe(true);
      expect(readdirSync(here).sort()).toEqual(['back', 'tool']);
    });

    it('copies trees both ways, and no link that leads out', async () => {
      const top = join(here, 'tree');
      mkdirSync(join(top, 'sub'), { recursive: true });
      writeFileSync(join(top, 'sub', 'deep'), 'deep');
      symlinkSync('sub/deep', join(top, 'link'));
      execFileSync('mkfifo', [join(top, 'pipe')]);
      const up = await bk(['cp', top, `${id}:`]);
      expect(up).toMatchObject({ status: 0, stderr: 'boxkite: pipe is left out: it is a device, socket or pipe\n' });
      expect(await text(['exec', id, '--', 'cat', 'tree/link'])).toBe('deep');
      await bk(['exec', id, '--', 'sh', '-c', 'ln -s /etc/passwd tree/evil; echo new > tree/sub/new']);
      const down = await bk(['cp', `${id}:tree`, join(here, 'out')]);
      expect(down.status).toBe(0);
      expect(down.stderr).toBe('boxkite: evil is left out: it is a link that leads out of the copy\n');
      expect(readdirSync(join(here, 'out')).sort()).toEqual(['link', 'sub']);
      expect(readlinkSync(join(here, 'out', 'link'))).toBe('sub/deep');
      expect(readFileSync(join(here, 'out', 'sub', 'new'), 'utf8')).toBe('new\n');
      const merged = await bk(['cp', `${id}:tree/.`, join(here, 'out')]);
      expect(merged.status).toBe(0);
    });

    it.each([
      [['none', 'ID:'], 'it is not there'],
      [['file', 'ID:none/x'], 'there is no directory /workspace/none in the sandbox'],
      [['file', 'ID:/etc/x'], '(outside_roots)'],
      [['ID:/etc/passwd', 'x'], '(outside_roots)'],
      [['ID:none', 'x'], '(file_not_found)'],
      [['ID:/workspace', '-'], 'is a directory'],
    ])('refuses %j: %s', async (words, reason) => {
      writeFileSync(join(here, 'file'), 'mine');
      const given = words.map((word) => (word.includes('ID:') ? word.replace('ID', id) : word));
      const outcome = await bk(['cp', ...given], { cwd: here });
      expect(outcome.stderr).toContain(reason);
      expect(outcome.stderr).toMatch(IS_LINE);
      expect(outcome.status).toBe(2);
      expect(readdirSync(here)).toEqual(['file']);
    });
  });

  it('runs one command at the daemon and leaves no sandbox', async () => {
    const child = startCli(['run', '--', 'sh', '-c', 'echo ready; read line; echo "got $line"; exit 8'], { env });
    const first: readonly unknown[] = await once(child.stdout ?? child, 'data');
    expect(String(first[0])).toBe('ready\n');
    expect(await json(['ls', '--json'])).toMatchObject([{ label: expect.stringMatching(/^run: sh -c /) as unknown }]);
    child.stdin?.end('word\n');
    expect(await outcomeOf(child)).toMatchObject({ status: 8, stdout: Buffer.from('got word\n'), stderr: '' });
    expect(await json(['ls', '--json'])).toEqual([]);
    const before = await json(['ls', '--all', '--json']);
    expect(await bk(['run', '--private', '--', 'true'])).toMatchObject({ status: 0, stderr: '' });
    expect(await json(['ls', '--all', '--json'])).toEqual(before);
  });

  it('keeps the files of a disk workspace over stop and start', async () => {
    const made = await bk(['create', '--workspace', 'disk', '--label', 'kept']);
    if (lane !== 'root' && made.status !== 0) {
      expect(made.stderr).toContain('(isolation_unavailable)');
      return;
    }
    const id = made.stdout.toString().trim();
    await bk(['exec', id, '--', 'sh', '-c', 'echo kept > file; sleep 600 &']);
    expect(await text(['stop', id])).toBe(`${id}\n`);
    expect(await json(['ls', '--json'])).toMatchObject([{ id, state: 'stopped', state_reason: 'requested' }]);
    expect((await bk(['exec', id, '--', 'true'])).stderr).toContain('(sandbox_not_ready)');
    expect(await text(['start', 'kept'])).toBe(`${id}\n`);
    expect(await text(['exec', id, '--', 'cat', 'file'])).toBe('kept\n');
    expect(await json(['ps', '--json', id])).toEqual([]);
    await bk(['rm', id]);
  });

  it('makes keys that see their account alone, and are refused when they are removed', async () => {
    const key = (await text(['keys', 'create', 'guest', '--account', 'guest'])).trim();
    expect(key).toMatch(/^bxk_live_[\w-]{43}$/);
    const as = { BOXKITE_API_KEY: key };
    const own = await sandbox('--label', 'mine');
    expect(JSON.parse(await text(['ls', '--json'], { env: as }))).toEqual([]);
    expect((await bk(['exec', own, '--', 'true'], { env: as })).stderr).toContain('(not_found)');
    const refused = await bk(['keys', 'ls'], { env: as });
    expect(refused.status).toBe(2);
    expect(refused.stderr).toContain('(admin_required)');
    expect(await text(['keys', 'ls'])).not.toContain(key);
    expect((await bk(['keys', 'rm', 'guest'])).status).toBe(0);
    const gone = await bk(['ls'], { env: as });
    expect(gone.status).toBe(2);
    expect(gone.stderr).toContain('(invalid_api_key)');
    await bk(['rm', own]);
  });

  it('says that no daemon answers, on standard output too where a program reads it', async () => {
    const nowhere = { BOXKITE_URL: `unix://${join(here, 'none.sock')}` };
    const plain = await bk(['ls'], { env: nowhere });
    expect(plain.status).toBe(1);
    expect(plain.stderr).toMatch(IS_LINE);
    expect(plain.stderr).toContain('(daemon_unreachable)');
    const { stdout } = await bk(['ls', '--json'], { env: nowhere });
    expect(JSON.parse(stdout.toString())).toMatchObject({ error: { code: 'daemon_unreachable' } });
  });
});
