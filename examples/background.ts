/** What a daemon adds: sandboxes and commands that outlive the program that made them. Start one first: `boxkite serve`. */
import { Sandbox } from 'boxkite';

const made = await Sandbox.create({ label: 'example', lifetime_minutes: 10 });
const { exec_id } = await made.execs.start('for i in 1 2 3; do echo "step $i"; sleep 0.2; done');

// Any other program can go on from here with the two ids.
const sandbox = await Sandbox.connect(made.id);
for await (const event of sandbox.attach(exec_id)) {
  if (event.type === 'output') process.stdout.write(event.text);
}
const { state, record } = await sandbox.execs.get(exec_id);
console.log(`it ${state} with exit status ${record?.exit_code}`);

const names: (string | null)[] = [];
for await (const { id, label } of Sandbox.list()) if (id === made.id) names.push(label);
console.log(`listed as: ${names.join()}`);
await sandbox.destroy();
