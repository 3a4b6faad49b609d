/** A process that owns a private runner and keeps it busy by the SDK, until it is killed. Its argument marks what it runs. */
import { createLocalProvider } from '@boxkite/local';
import { nativeProgram } from '@boxkite/testing';
import { Sandbox } from 'boxkite';

const marker = process.argv[2] ?? '';
const provider = createLocalProvider({
  binaries: { runner: nativeProgram('boxkite-runner'), agent: nativeProgram('boxkite-agent') },
});

async function busy(): Promise<never> {
  for (;;) {
    await using sandbox = await Sandbox.create({ provider });
    process.stdout.write('.');
    await sandbox.files.write('file', 'content');
    // Under load a short deadline may pass before the start, which is refused; that is not what this process is for.
    await Promise.allSettled([
      sandbox.exec('trap "" TERM INT HUP; (setsid sleep 30 &); sleep 0.05', { env: { MARKER: marker } }),
      sandbox.exec('sleep 30', { env: { MARKER: marker }, timeout_ms: 60 }),
      sandbox.exec('head -c 3000000 /dev/zero', { env: { MARKER: marker } }),
    ]);
  }
}

await Promise.all([busy(), busy(), busy()]);
