/**
 * A client that never stops: writes files, runs commands, and says on standard output what was acknowledged, one line of
 * JSON each. Arguments: socket, path of the key, then sandbox ids.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { BoxkiteFailure, Sandbox, serverProvider } from 'boxkite';

const [socket = '', keyFile = '', ...ids] = process.argv.slice(2);
const provider = serverProvider({ url: `unix://${socket}`, apiKey: readFileSync(keyFile, 'utf8').trim() });
const MOST_BYTES = 100_000;

function say(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function work(id: string): Promise<never> {
  let sandbox: Sandbox | null = null;
  for (let number = 0; ; number += 1) {
    const name = `${process.pid}-${number}`;
    const data = randomBytes(1 + Math.floor(Math.random() * MOST_BYTES));
    try {
      sandbox ??= await Sandbox.connect(id, { provider });
      await sandbox.files.write(name, data);
      say({ wrote: name, id, hash: createHash('sha256').update(data).digest('hex') });
      const { stdout, exec_id, end } = await sandbox.exec(`wc -c < ${name}; echo ${name}`);
      if (end === 'exited' && stdout !== `${data.length}\n${name}\n`) say({ wrong: stdout, id, name });
      say({ ran: exec_id, id, end });
    } catch (error) {
      // What the death of a process of the daemon's makes of a call; anything else is a fault of ours.
      if (!(error instanceof BoxkiteFailure)) throw error;
      say({ failed: error.code, id });
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

await Promise.all(ids.map(work));
