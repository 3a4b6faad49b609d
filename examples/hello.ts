/** The smallest whole use: a fresh sandbox, files in, a command, files out; at the end of the block nothing is left. */
import { Sandbox } from 'boxkite';

await using sandbox = await Sandbox.create();
await sandbox.files.write(
  'greet.py',
  'import sys\nopen("out.txt", "w").write(f"hello {sys.argv[1]}\\n")\nprint("done")\n',
);
const { exitCode, stdout } = await sandbox.exec(['python3', 'greet.py', 'world']);
console.log(`exit status ${exitCode}, it says: ${stdout.trim()}`);
console.log(`it wrote: ${(await sandbox.files.read('out.txt')).trim()}`);
console.log(`network: ${sandbox.effective.network}, uid: ${sandbox.effective.user.uid}`);
