/** A process that holds one session until it is killed: it runs commands one after another and tells which were answered. */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { effectiveSchema } from '@boxkite/protocol';
import { COMMAND_ENVIRONMENT, RunnerClient } from '@boxkite/runner-client';
import { Session } from '@boxkite/sidecar/app';

const [socketPath = '', sandbox = '', directory = '', blobPath = '', effective = '', long = ''] = process.argv.slice(2);

function dial() {
  return new Promise<ReturnType<typeof connect>>((resolve, reject) => {
    const socket = connect(socketPath, () => resolve(socket));
    socket.once('error', reject);
  });
}

const client = new RunnerClient(await dial(), { connect: dial, environment: COMMAND_ENVIRONMENT });
const session = await Session.open({
  id: 'killed',
  sandbox: BigInt(sandbox),
  effective: effectiveSchema.parse(JSON.parse(effective)),
  runner: { call: (run) => run(client), ended: false, lost: client.lost },
  directory,
  state: {
    get: () => (existsSync(blobPath) ? readFileSync(blobPath) : null),
    put: (blob) => {
      writeFileSync(`${blobPath}.new`, blob);
      renameSync(`${blobPath}.new`, blobPath);
      return Promise.resolve();
    },
  },
});

if (long !== '' && (await session.execs.list()).length === 0) {
  const { exec_id } = await session.execs.start({
    argv: ['sh', '-c', long],
    secret_env: { TOKEN: 'correct horse battery' },
    overflow: 'block',
  });
  process.stdout.write(`long ${exec_id}\n`);
}
for (let count = 0; ; count += 1) {
  const text = `${process.pid}-${count}`;
  const { record } = await session.execs.run({ argv: ['echo', text] });
  process.stdout.write(`ran ${record.exec_id} ${text}\n`);
}
