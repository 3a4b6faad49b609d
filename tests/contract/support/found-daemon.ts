/** A program that names no server, beside a daemon of its user. Prints where its sandboxes come from, as JSON. */
import { findServer, Sandbox } from 'boxkite';

const found = await findServer();
await using sandbox = await Sandbox.create();
await using alone = await Sandbox.create({ daemon: false });
const states: (string | null)[] = [];
for (const each of [sandbox, alone]) {
  const state = await each.status().then(
    (status) => status.state,
    () => null,
  );
  states.push(state);
}
console.log(JSON.stringify({ url: found?.url ?? null, states }));
