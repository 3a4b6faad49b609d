/** Which test files run in the guest, in which lane. */
import { globSync } from 'node:fs';

/** A test file that stays outside, and why the guest would tell nothing new about it. */
export interface LeftOut {
  readonly file: string;
  readonly reason: string;
}

/** Everything else in `tests/contract` and `tests/security` runs, new files by themselves. */
export const LEFT_OUT: readonly LeftOut[] = [
  {
    file: 'tests/security/allowlist-changes.test.ts',
    reason: 'how lists come and go is the same on every kernel; allowlist.test.ts tries what one holds',
  },
  {
    file: 'tests/security/allowlist-roots.test.ts',
    reason: 'which files a list needs is read from files; allowlist.test.ts tries that they are enough',
  },
  {
    file: 'tests/security/allowlist-weakened.test.ts',
    reason: 'shows that the attacks of allowlist.test.ts can succeed, which no kernel changes',
  },
  {
    file: 'tests/contract/allowlist.test.ts',
    reason: 'is which list binds whom, decided in Node; tests/security/allowlist.test.ts tries what the kernel holds',
  },
  {
    file: 'tests/contract/cli.test.ts',
    reason: 'starts Node, which takes seconds here, for every call; what its commands do is tested by exec.test.ts',
  },
  {
    file: 'tests/contract/cli-daemon.test.ts',
    reason: 'starts Node for every call as well; what its commands reach is tested by daemon.test.ts and port.test.ts',
  },
  {
    file: 'tests/contract/cli-output.test.ts',
    reason: 'starts Node for every call as well, and is about where its own output goes',
  },
  {
    file: 'tests/contract/daemon.test.ts',
    reason:
      'starts a daemon for each test, with Node twice: 20 s each here; port.test.ts and chaos.test.ts start some, too',
  },
  {
    file: 'tests/contract/file-agent-kill.test.ts',
    reason:
      'is about ends of sockets, which no control group changes, and takes minutes here; kill.test.ts kills the rest',
  },
  {
    file: 'tests/contract/demo.test.ts',
    reason: 'runs 164 programs that differ in nothing that the kernel sees; exec.test.ts has each kind',
  },
  {
    file: 'tests/contract/examples.test.ts',
    reason: 'shows that programs of the documentation run; what they call is tested by sdk.test.ts',
  },
  {
    file: 'tests/contract/chaos.test.ts',
    reason:
      'kills processes of Node, which takes half a minute to start here; kill.test.ts kills those that the kernel sees',
  },
  {
    file: 'tests/contract/daemon-substrate.test.ts',
    reason: 'tests what Node knows of its runner, over the runner that port.test.ts has in every way',
  },
  {
    file: 'tests/contract/envelopes.test.ts',
    reason: 'runs in the lane of the ordinary user, where a delegated group is the harder case',
  },
  {
    file: 'tests/contract/interpreter-restart.test.ts',
    reason: 'starts Node four times, half a minute each here; interpreter.test.ts has the same over sessions',
  },
  {
    file: 'tests/contract/exec.test.ts',
    reason: 'has in depth what the contract of port.test.ts has in breadth, over private runners and the daemon',
  },
  {
    file: 'tests/contract/files.test.ts',
    reason: 'files are the same on every control group; port.test.ts has their contract, workspaces.test.ts the quota',
  },
  {
    file: 'tests/contract/records.test.ts',
    reason: 'records lie in the runner and know nothing of control groups',
  },
  {
    file: 'tests/contract/sdk.test.ts',
    reason: 'port.test.ts has the same calls at the port below',
  },
  {
    file: 'tests/contract/sdk-lasting.test.ts',
    reason: 'port.test.ts has the same calls at the port below',
  },
  {
    file: 'tests/contract/session-kill.test.ts',
    reason: 'kills processes of Node, which takes half a minute to start here',
  },
  {
    file: 'tests/contract/sidecar-authentication.test.ts',
    reason: 'is HTTP before anything of the kernel is asked',
  },
  {
    file: 'tests/contract/sidecar-command.test.ts',
    reason: 'starts Node twice for each sidecar, 20 s each here; nothing of it knows of control groups',
  },
  {
    file: 'tests/contract/sidecar-commands.test.ts',
    reason: 'is HTTP and memory over commands that kill.test.ts and port.test.ts end in every way',
  },
  {
    file: 'tests/contract/sidecar-examples.test.ts',
    reason: 'shows that the examples of the documentation are true; what they ask for is tested by sidecar.test.ts',
  },
  {
    file: 'tests/contract/sidecar-files.test.ts',
    reason: 'is HTTP over files, which are the same on every control group',
  },
  {
    file: 'tests/contract/sidecar-images.test.ts',
    reason: 'decodes images beside the sandbox; no control group has a part in it',
  },
  {
    file: 'tests/contract/sidecar-kept.test.ts',
    reason: 'starts Node again and again, 20 s each here; nothing of it knows of control groups',
  },
  {
    file: 'tests/contract/sidecar-session.test.ts',
    reason: 'skills are files, which files.test.ts stands for; the rest of it is HTTP and memory',
  },
  {
    file: 'tests/contract/sidecar-storage.test.ts',
    reason: 'reads files by the file agent and puts them beside the sandbox; no control group has a part in it',
  },
  {
    file: 'tests/contract/sidecar.test.ts',
    reason: 'is HTTP over what port.test.ts tests',
  },
  {
    file: 'tests/contract/supervise.test.ts',
    reason: 'starts a daemon for each test; nothing of it knows of control groups',
  },
  {
    file: 'tests/security/escape.test.ts',
    reason:
      'its bounds on time are of a machine with processors of its own; posture.test.ts and machine.test.ts look at each layer',
  },
  {
    file: 'tests/security/file-races.test.ts',
    reason: 'races calls of files, which would take minutes here and are the same on every control group',
  },
  {
    file: 'tests/security/fuzz.test.ts',
    reason: 'frames are read before anything of the kernel is asked',
  },
  {
    file: 'tests/security/sidecar-fuzz.test.ts',
    reason: 'looks for faults of Node, which would take minutes for its requests here',
  },
  {
    file: 'tests/security/weakened.test.ts',
    reason: 'shows that the tests of the posture can fail, which is so on every kernel',
  },
];

/**
 * What an ordinary user runs beside root, in a group that somebody has handed over: what depends on who that is. More
 * would take the lane over its six minutes.
 */
export const USER_FILES: readonly string[] = [
  'tests/contract/envelopes.test.ts',
  'tests/security/machine.test.ts',
  'tests/security/posture.test.ts',
];

/** Files of root's lane below `root`, with `/` between names. An entry of `leftOut` that names no file is an error. */
export function laneFiles(root: string, leftOut: readonly LeftOut[] = LEFT_OUT): readonly string[] {
  const all = globSync('tests/{contract,security}/**/*.test.ts', { cwd: root }).toSorted();
  const stale = leftOut.filter(({ file }) => !all.includes(file));
  if (stale.length > 0) throw new Error(`tools/v2/plan.ts names ${stale.map(({ file }) => file).join(', ')}`);
  return all.filter((file) => !leftOut.some((entry) => entry.file === file));
}
