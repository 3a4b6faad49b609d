/** A program that names no server and never destroys its sandbox. Prints what it found, as JSON. */
import { Sandbox } from 'boxkite';

const sandbox = await Sandbox.create({ label: 'by the environment' });
const { stdout } = await sandbox.exec('echo $((6 * 7))');
for await (const event of sandbox.stream('true')) void event;
console.log(JSON.stringify({ id: sandbox.id, stdout, state: (await sandbox.status()).state }));
