/**
 * Load of a sidecar from a process of its own: `PORT TOKEN EXECS FILE` keeps so many commands in flight, and one search of
 * FILE for what is nowhere in it. Prints `loaded` when all run, goes on until it is ended, and fails where a call does.
 */
import { SidecarConnection } from '../sidecars.ts';

const [, , port = '', token = '', execs = '', file = ''] = process.argv;
const connect = (): SidecarConnection => new SidecarConnection({ port: Number(port), token });
let ran = 0;

async function forever(act: (connection: SidecarConnection) => Promise<unknown>): Promise<never> {
  const connection = connect();
  while (true) await act(connection);
}

async function command(connection: SidecarConnection): Promise<void> {
  ran += 1;
  if (ran === Number(execs)) process.stdout.write('loaded\n');
  await connection.call('POST', '/exec', { command: 'sleep 1' });
}

async function search(connection: SidecarConnection): Promise<void> {
  const body = { pattern: 'z[a-c]+needle', path: file };
  const answer = JSON.parse((await connection.call('POST', '/grep', body)).toString()) as { readonly error?: unknown };
  if (answer.error) throw new TypeError(`the search ended early: ${JSON.stringify(answer.error)}`);
}

await Promise.all([forever(search), ...Array.from({ length: Number(execs) }, () => forever(command))]);
