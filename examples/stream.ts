/** Live output, a time limit, and a command that is stopped from outside. */
import { Sandbox } from 'boxkite';

await using sandbox = await Sandbox.create({ pids: 64 });

for await (const event of sandbox.stream('for i in 1 2 3; do echo "step $i"; sleep 0.1; done')) {
  if (event.type === 'output') process.stdout.write(event.text);
  if (event.type === 'ended') console.log(`ended as ${event.result.end} ${event.result.exitCode}`);
}

const late = await sandbox.exec('sleep 60', { timeout_ms: 300 });
console.log(`the slow one: ${late.end}`);

const stop = new AbortController();
setTimeout(() => stop.abort(), 300);
try {
  await sandbox.exec('sleep 60', { signal: stop.signal });
} catch (error) {
  if (!(error instanceof Error) || !('code' in error) || error.code !== 'aborted') throw error;
  console.log('the cancelled one: aborted, and nothing of it runs');
}
