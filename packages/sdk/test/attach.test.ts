/** What an attached command says once it can't be attached any more. */
import { BoxkiteError } from '@boxkite/protocol';
import { expect, test } from 'vitest';
import { Sandbox } from '../src/sandbox.ts';
import { FakeHandle, FakeSandbox } from './fake-port.ts';
import { V1Server } from './v1-server.ts';

test.each(['not_found', 'invalid_api_key'] as const)('keys are refused as the output was: %s', async (code) => {
  await using server = await V1Server.start(new FakeSandbox(async () => new FakeHandle([])));
  const sandbox = await Sandbox.create({ url: server.url });
  const { exec_id } = await sandbox.execs.start('sh', { stdin: 'stream', tty: { columns: 80, rows: 24 } });
  server.refusal = new BoxkiteError(code, 'no');
  const stream = sandbox.attach(exec_id);
  const early = stream.write('early');
  early.catch(() => undefined);
  await expect(stream.result).rejects.toMatchObject({ name: 'BoxkiteWireError', code });
  await expect(early).rejects.toMatchObject({ name: 'BoxkiteWireError', code });
  await expect(stream.write('late')).rejects.toMatchObject({ name: 'BoxkiteWireError', code });
});
