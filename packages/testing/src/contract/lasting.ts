import type { ExecEvent, ExecsPort, SandboxesPort, SandboxPort, SandboxProvider } from '@boxkite/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bytesOf, type ContractSubject, codeOf, itemsOf, shIn } from './subject.ts';

interface Read {
  readonly stdout: string;
  readonly gaps: number;
  readonly end: string | null;
}

async function read(events: AsyncIterable<ExecEvent>): Promise<Read> {
  const parts: Uint8Array[] = [];
  let gaps = 0;
  let end: string | null = null;
  for await (const event of events) {
    if (event.type === 'output' && event.stream === 'stdout') parts.push(event.data);
    else if (event.type === 'gap') gaps += 1;
    else if (event.type === 'ended') end = event.record.end;
  }
  return { stdout: Buffer.concat(parts).toString('latin1'), gaps, end };
}

/** Sandboxes and execs that outlive whoever made them. */
export function lastingContract(provider: () => SandboxProvider, subject: ContractSubject): void {
  describe('a sandbox that stays', () => {
    let sandbox: SandboxPort;
    let sandboxes: SandboxesPort;
    let execs: ExecsPort;
    beforeAll(async () => {
      const found = provider().sandboxes;
      if (found === null) throw new TypeError(`${subject.name} keeps no sandboxes`);
      sandboxes = found;
      sandbox = await provider().create({ workspace_mb: 64, label: 'contract', lifetime_minutes: 30 });
      if (sandbox.execs === null) throw new TypeError(`${subject.name} keeps no execs`);
      execs = sandbox.execs;
    });
    afterAll(async () => {
      await sandbox.destroy();
    });

    it('is found again by its id, and in the list', async () => {
      await sandbox.files.write('here', Buffer.from('yes'));
      const again = await sandboxes.connect(sandbox.id);
      expect((await bytesOf(again.files.read('here'))).toString()).toBe('yes');
      const summary = await sandboxes.get(sandbox.id);
      expect(summary).toMatchObject({ state: 'ready', label: 'contract', workspace: { kind: 'tmpfs', kept: true } });
      expect(Date.parse(summary.expires_at) - Date.parse(summary.created_at)).toBe(30 * 60_000);
      expect((await itemsOf(sandboxes.list())).map(({ id }) => id)).toContain(sandbox.id);
      await expect(sandboxes.connect('00000000-0000-4000-8000-000000000000')).rejects.toMatchObject({
        code: 'not_found',
      });
    });

    it('lives longer when it is extended', async () => {
      const before = Date.parse((await sandboxes.get(sandbox.id)).expires_at);
      const after = Date.parse((await sandboxes.extend(sandbox.id, 90)).expires_at);
      expect(after - before).toBeGreaterThan(50 * 60_000);
    });

    it('keeps an exec whose starter has gone, and its record after the end', async () => {
      const started = await execs.start({ argv: ['/bin/sh', '-c', 'echo one; sleep 0.3; echo two'] });
      expect(['starting', 'running']).toContain(started.state);
      const second = await sandboxes.connect(sandbox.id);
      const kept = second.execs;
      if (kept === null) throw new TypeError('the second connection keeps no execs');
      expect(await read(kept.output(started.exec_id))).toEqual({ stdout: 'one\ntwo\n', gaps: 0, end: 'exited' });
      expect(await read(kept.output(started.exec_id))).toEqual({ stdout: 'one\ntwo\n', gaps: 0, end: 'exited' });
      expect(await kept.get(started.exec_id)).toMatchObject({
        state: 'ended',
        record: { end: 'exited', exit_code: 0 },
      });
      expect((await kept.list()).map(({ exec_id }) => exec_id)).toContain(started.exec_id);
    });

    it('goes on from any offset, for several readers at once', async () => {
      const line = 'for i in $(seq 400); do echo "line $i"; done';
      const { exec_id } = await execs.start({ argv: ['/bin/sh', '-c', line] });
      const whole = (await read(execs.output(exec_id))).stdout;
      const offsets = [0, 1, 6, 7, 1000, whole.length - 1, whole.length];
      const rest = await Promise.all(offsets.map(async (stdout) => await read(execs.output(exec_id, { stdout }))));
      expect(rest.map((each) => each.stdout)).toEqual(offsets.map((offset) => whole.slice(offset)));
      expect((await read(execs.output(exec_id, { follow: false }))).stdout).toBe(whole);
    });

    it('takes input, a size and signals by the exec’s id', async () => {
      const { exec_id } = await execs.start({ argv: ['/bin/cat'], stdin: 'stream' });
      await execs.write(exec_id, Buffer.from('in'));
      await execs.closeStdin(exec_id);
      expect((await read(execs.output(exec_id))).stdout).toBe('in');
      const terminal = await execs.start({ argv: ['/bin/sh'], stdin: 'stream', tty: { columns: 80, rows: 24 } });
      await execs.resize(terminal.exec_id, 132, 50);
      await execs.write(terminal.exec_id, Buffer.from('stty size; exit 4\n'));
      expect((await read(execs.output(terminal.exec_id))).stdout).toContain('50 132');
      const sleeper = await execs.start({ argv: ['/bin/sleep', '600'] });
      await execs.signal(sleeper.exec_id, 'SIGTERM');
      expect((await read(execs.output(sleeper.exec_id))).end).toBe('signaled');
      const other = await execs.start({ argv: ['/bin/sleep', '600'] });
      await execs.kill(other.exec_id);
      expect((await execs.get(other.exec_id)).record).toMatchObject({ end: 'killed' });
      for (const call of [execs.get('none'), execs.kill('none'), execs.write('none', Buffer.from('x'))])
        await expect(call).rejects.toMatchObject({ code: 'not_found' });
    });

    it('keeps the first and the last bytes of long output, with an explicit gap between', async () => {
      const collected = await execs.run({
        argv: ['/bin/sh', '-c', 'echo first; head -c 3000000 /dev/zero | tr "\\0" x; echo; echo last'],
        limits: { output_bytes: 10_000 },
      });
      const text = Buffer.from(collected.stdout).toString();
      expect(collected).toMatchObject({ stdout_truncated: true, stderr_truncated: false });
      expect([text.length, text.startsWith('first\n'), text.endsWith('last\n')]).toEqual([10_000, true, true]);
      const later = await read(execs.output(collected.record.exec_id));
      expect(later).toMatchObject({ gaps: 1, end: 'exited' });
      expect(later.stdout).toBe(text);
    });

    it('shows no secret at any offset', async () => {
      const secret = 'S3cr3t-value/with+all=kinds';
      const line = 'for i in 1 2 3 4; do printf "a%sb" "$TOKEN"; printf %s "$TOKEN" | base64; done; echo "$TOKEN" >&2';
      const { exec_id } = await execs.start({ argv: ['/bin/sh', '-c', line], secret_env: { TOKEN: secret } });
      const whole = (await read(execs.output(exec_id))).stdout;
      expect(whole).not.toContain(secret);
      expect(whole).not.toContain(Buffer.from(secret).toString('base64'));
      expect(whole).toContain('TOKEN');
      for (let stdout = 0; stdout <= whole.length; stdout += 1)
        expect((await read(execs.output(exec_id, { stdout }))).stdout).toBe(whole.slice(stdout));
    });

    it('is refused a stop where its files would be lost', async () => {
      await expect(sandboxes.stop(sandbox.id)).rejects.toMatchObject({ code: 'workspace_not_kept' });
      expect((await shIn(sandbox, 'echo alive')).stdout.toString()).toBe('alive\n');
    });

    it('with a disk workspace, stops and starts with its files and no process, or is refused one', async () => {
      if (!subject.disk) {
        await expect(provider().create({ workspace: 'disk' })).rejects.toMatchObject({ code: 'isolation_unavailable' });
        return;
      }
      const lasting = await provider().create({ workspace: 'disk', workspace_mb: 64 });
      try {
        await lasting.files.write('kept', Buffer.from('kept'));
        await lasting.exec({ argv: ['/bin/sleep', '600'] });
        expect(await sandboxes.stop(lasting.id)).toMatchObject({
          state: 'stopped',
          workspace: { kind: 'disk', kept: true },
        });
        await expect(shIn(lasting, 'true')).rejects.toMatchObject({ code: 'sandbox_not_ready' });
        const again = await sandboxes.start(lasting.id);
        expect((await bytesOf(again.files.read('kept'))).toString()).toBe('kept');
        expect((await shIn(again, 'cat /proc/[0-9]*/cmdline | tr "\\0" " "')).stdout.toString()).not.toContain('600');
      } finally {
        await sandboxes.destroy(lasting.id);
      }
    });

    it('is gone for everybody once it is destroyed', async () => {
      const short = await provider().create({});
      await Promise.all(Array.from({ length: 10 }, async () => await sandboxes.destroy(short.id)));
      expect(['not_found', 'sandbox_not_ready']).toContain(await codeOf(sandboxes.connect(short.id)));
      expect((await sandboxes.get(short.id)).state).toBe('destroyed');
    });
  });
}
