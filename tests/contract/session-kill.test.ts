/** `kill -9` of the process that holds a session: it ends no command, and no record and no byte of output is lost. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Session } from '@boxkite/sidecar/app';
import { eventually, sleep, startRunner } from '@boxkite/testing';
import { expect, test } from 'vitest';

const CHILD = fileURLToPath(new URL('support/session-process.ts', import.meta.url));
const KILLS = 6;
const LINES = 20_000;
const LONG = `i=0; while [ $i -lt ${LINES} ]; do echo "line $i $TOKEN and more"; i=$((i+1)); [ $((i % 400)) = 0 ] && sleep 0.05; done; exit 7`;

test('is survived at any moment, as often as it comes', async () => {
  await using runner = await startRunner();
  const { number, effective } = await runner.create();
  const base = mkdtempSync(join(tmpdir(), 'boxkite-session-kill-'));
  const directory = join(base, 'records');
  const blobPath = join(base, 'blob');
  const answered = new Map<string, string>();
  let long = '';
  for (let round = 0; round < KILLS; round += 1) {
    const child = spawn(
      process.execPath,
      [CHILD, runner.socketPath, String(number), directory, blobPath, JSON.stringify(effective), LONG],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    await eventually(
      () => text.includes('ran '),
      30_000,
      () => text,
    );
    await sleep(Math.random() * 200);
    child.kill('SIGKILL');
    await once(child, 'close');
    // Only what was told whole was told.
    for (const line of text.split('\n').slice(0, -1)) {
      const [word, id = '', said = ''] = line.split(' ');
      if (word === 'long') long = id;
      else answered.set(id, said);
    }
  }
  const session = await Session.open({
    id: 'killed',
    sandbox: number,
    effective,
    runner: { call: (run) => run(runner.client), ended: false, lost: runner.client.lost },
    directory,
    state: { get: () => readFileSync(blobPath), put: () => Promise.resolve() },
  });
  const parts: Buffer[] = [];
  let at = 0;
  for await (const event of session.execs.output(long)) {
    if (event.type === 'ended') {
      expect(event.record).toMatchObject({ end: 'exited', exit_code: 7 });
      continue;
    }
    if (event.type === 'gap') throw new Error(`a gap from ${event.from} to ${event.to}`);
    expect(event.offset).toBe(at);
    at += event.data.length;
    parts.push(Buffer.from(event.data));
  }
  const lines = Array.from({ length: LINES }, (_, line) => `line ${line} [redacted:TOKEN] and more\n`).join('');
  expect(Buffer.concat(parts).toString() === lines).toBe(true);
  const listed = new Map((await session.execs.list()).map((summary) => [summary.exec_id, summary]));
  expect(answered.size).toBeGreaterThan(KILLS);
  for (const [id, said] of [...answered].slice(-900)) {
    expect(listed.get(id)?.record).toMatchObject({ end: 'exited', exit_code: 0 });
    let got = '';
    for await (const event of session.execs.output(id)) {
      if (event.type === 'output') got += Buffer.from(event.data).toString();
    }
    expect(got).toBe(`${said}\n`);
  }
  // What nobody was told of is neither there nor alive.
  await eventually(
    async () => (await runner.client.list()).execs.length === 0,
    10_000,
    () => 'the runner still keeps an exec',
  );
  await session.destroy();
  rmSync(base, { recursive: true, force: true });
});
