/**
 * Every numbered fault of the public original that boxkite replaces, as what must hold here: with the tests that hold it,
 * or the piece of work that will bring it. Numbers: `F-` and `W-` the sidecar's found and open faults, `8a-` and `8b-`
 * the manager's, `6.1-` and `6.2-` the server's. `tests/architecture/requirements.test.ts` is the gate.
 */

/** A test: its file and its title, or `*` for the whole file. */
export type TestName = readonly [file: string, title: string];

/** What brings a requirement that no test holds yet. */
export type Work =
  | 'Node interpreter and language servers'
  | '/v1 API'
  | 'Kubernetes'
  | 'object storage'
  | 'terminals'
  | 'browser and desktop'
  | 'previews'
  | 'outbound HTTP and secrets broker'
  | 'accounts and sign-in'
  | 'audit log'
  | 'webhooks'
  | 'images and volumes'
  | 'snapshots'
  | 'metrics'
  | 'release'
  | 'adapters and MCP'
  | 'quotas and rate limits'
  | 'handoff';

/** One requirement. */
export interface Requirement {
  readonly id: string;
  /** What must hold. */
  readonly what: string;
  readonly by: readonly TestName[] | Work;
}

function held(id: string, what: string, ...tests: readonly TestName[]): Requirement {
  return { id, what, by: tests };
}

function coming(id: string, what: string, work: Work): Requirement {
  return { id, what, by: work };
}

/** How many there are of each kind; the gate wants each number once. */
export const counts = { 'F-': 63, 'W-': 35, '8a-': 52, '8b-': 26, '6.1-T': 78, '6.2-W': 45 } as const;

export const requirements: readonly Requirement[] = [
  held('F-01', 'Every route but health needs the token, new routes too', [
    'tests/contract/sidecar-authentication.test.ts',
    'asks for the token, whatever else is wrong, and before it upgrades',
  ]),
  held(
    'F-02',
    'Without a configured token everything but health answers 503',
    ['tests/contract/sidecar-authentication.test.ts', 'is 503 where no token is configured, with the placeholder too'],
    ['tests/contract/sidecar-command.test.ts', 'serves health and refuses all else: %s'],
  ),
  held(
    'F-03',
    'A placeholder token counts as none',
    ['packages/local/test/serve/launch-sidecar.test.ts', '%s'],
    ['tests/contract/sidecar-command.test.ts', 'serves health and refuses all else: %s'],
  ),
  coming('F-04', "A sandbox's token is in a secret of its own, never in an annotation or a literal", 'Kubernetes'),
  held('F-05', 'Tokens are compared in constant time', [
    'packages/sidecar/test/session-registry.test.ts',
    'is found by its hash, which is compared in constant time, and never by its text',
  ]),
  held('F-06', 'configure needs the token like every other route', [
    'tests/contract/sidecar.test.ts',
    'is asked for by %s %s before anything else',
  ]),
  coming('F-07', 'Manager and sidecar speak TLS with exactly the pinned certificate', 'Kubernetes'),
  held(
    'F-08',
    'A WebSocket is authenticated before it is accepted or anything is made for it',
    [
      'tests/contract/sidecar-authentication.test.ts',
      'asks for the token, whatever else is wrong, and before it upgrades',
    ],
    ['packages/server/test/execs.test.ts', 'is refused before the upgrade, by a status'],
  ),
  coming('F-09', 'No container socket of the host is ever mounted', 'Kubernetes'),
  coming('F-10', 'The pod that is made equals the pod that is promised', 'Kubernetes'),
  held('F-11', "env of the reference's exec reaches no command", [
    'tests/contract/sidecar.test.ts',
    'takes a body as the reference does, and never repeats what is wrong',
  ]),
  held(
    'F-12',
    'secret_env sets no variable that changes how programs load, and no malformed name',
    ['tests/contract/sidecar.test.ts', 'refuse names that decide what is loaded'],
    [
      'packages/sidecar/test/session.test.ts',
      'takes no more of an environment than is allowed, nor secrets that can not be hidden',
    ],
    ['packages/policy/test/environment-names.test.ts', '*'],
    ['tests/contract/sidecar-commands.test.ts', 'are given to the command that names them, and shown as their names'],
  ),
  held(
    'F-13',
    'A secret that was not granted is left out',
    ['tests/contract/sidecar-commands.test.ts', 'are given to the command that names them, and shown as their names'],
    [
      'tests/contract/sidecar-commands.test.ts',
      'that can not be had are left out, and said, whatever the control plane answers',
    ],
    [
      'packages/sidecar/test/broker.test.ts',
      'asks for nothing that is not granted, or by a name that no variable may have',
    ],
  ),
  held(
    'F-14',
    'The value of a used secret is redacted in both streams',
    ['packages/testing/src/contract/lasting.ts', 'shows no secret at any offset'],
    [
      'packages/sidecar/test/crash.test.ts',
      'a process that is killed at any operation of its disk loses and repeats nothing',
    ],
    ['tests/contract/sidecar-commands.test.ts', 'are given to the command that names them, and shown as their names'],
  ),
  held('F-15', 'Output is bounded while it is read', [
    'tests/contract/records.test.ts',
    'drop the oldest bytes of a command whose reader is away, and name the gap',
  ]),
  held(
    'F-16',
    'Every way to run a command has the same isolation',
    ['tests/security/posture.test.ts', 'is the same in a kept envelope and in a fresh one'],
    ['tests/security/posture.test.ts', 'is the same with a terminal, which is its three descriptors'],
  ),
  held(
    'F-17',
    'Ending a command ends its whole tree',
    ['tests/contract/exec.test.ts', 'with every daemon dead before a deadline is answered'],
    ['tests/contract/sidecar-commands.test.ts', 'leave nothing alive after %s, daemons that ignore signals included'],
  ),
  held(
    'F-18',
    'No signal reaches our own processes',
    ['tests/security/escape.test.ts', 'survives kill -9 of PID 1 and of everything, and so does a sibling'],
    ['tests/security/escape.test.ts', 'sees and signals no process of the host, and no environment'],
  ),
  held(
    'F-19',
    'No command outlives what runs it, and the next start removes what is left',
    ['tests/contract/kill.test.ts', 'of the runner: nothing is alive at once, and the next start sweeps the rest'],
    [
      'tests/contract/sidecar-commands.test.ts',
      'go on over a restart of this process, with their input, output and reasons',
    ],
  ),
  coming(
    'F-20',
    "A terminal's command is one program with arguments, refused when blank or badly encoded",
    'terminals',
  ),
  held(
    'F-21',
    'One exec budget counts every way to run code',
    [
      'tests/contract/sidecar-commands.test.ts',
      'lets exactly as many calls through as it has, of twenty at once and of every kind',
    ],
    ['tests/contract/sidecar-commands.test.ts', 'counts nothing that is refused for what it is, and no reading'],
  ),
  held(
    'F-22',
    'The budget is atomic: twenty racers at a limit of five are five',
    [
      'tests/contract/sidecar-commands.test.ts',
      'lets exactly as many calls through as it has, of twenty at once and of every kind',
    ],
    ['packages/sidecar/test/budget.test.ts', 'lets exactly as many through, of any number at once, by either way'],
  ),
  held(
    'F-23',
    'The budget of seconds replaces the result that breaks it; 0 turns it off; configure resets it',
    [
      'tests/contract/sidecar-commands.test.ts',
      'refuses the result of the call that breaks it by its time, and ends what runs',
    ],
    ['packages/sidecar/test/budget.test.ts', '*'],
  ),
  held('F-24', 'A broken budget clears the scratch memory too', [
    'tests/contract/sidecar-session.test.ts',
    'is gone when the budget is spent',
  ]),
  held('F-25', 'What the breaking call has started is ended', [
    'tests/contract/sidecar-commands.test.ts',
    'refuses the result of the call that breaks it by its time, and ends what runs',
  ]),
  held(
    'F-26',
    'No background process or its output survives configure',
    ['tests/contract/sidecar-commands.test.ts', 'leave nothing alive after %s, daemons that ignore signals included'],
    ['tests/contract/sidecar-commands.test.ts', 'takes with it what was asked for in it, however late that comes'],
  ),
  coming('F-27', 'No exposed port survives configure', 'previews'),
  held('F-28', 'No Python interpreter state survives configure', [
    'tests/contract/interpreter.test.ts',
    'ends with its use, and with it what it has started',
  ]),
  coming('F-29', 'No Node interpreter state survives configure', 'Node interpreter and language servers'),
  coming('F-30', 'No browser survives configure', 'browser and desktop'),
  coming('F-31', 'No desktop survives configure', 'browser and desktop'),
  coming('F-32', 'No language server survives configure', 'Node interpreter and language servers'),
  coming('F-33', 'No shared terminal survives configure', 'terminals'),
  held('F-34', 'No scratch memory survives configure', [
    'tests/contract/sidecar-session.test.ts',
    'stays over a restart, and is gone with its use, for good',
  ]),
  held(
    'F-35',
    'No cached secret value survives configure',
    ['tests/contract/sidecar-commands.test.ts', 'are forgotten by configure, also when one is being asked for'],
    ['packages/sidecar/test/broker.test.ts', 'forgets all values when a use ends, and takes none that comes after it'],
  ),
  held(
    'F-36',
    'Neither budget nor its breach survives configure',
    [
      'tests/contract/sidecar-commands.test.ts',
      'goes on over a restart of this process: what it has counted, and that it is spent',
    ],
    [
      'tests/contract/sidecar-commands.test.ts',
      'refuses the result of the call that breaks it by its time, and ends what runs',
    ],
  ),
  held('F-37', "A tool call always uses the sidecar's own session id", [
    'tests/contract/sidecar-session.test.ts',
    "is made in the session's own name, whatever the caller says",
  ]),
  held(
    'F-38',
    'No path that is exchanged between check and use leads out',
    ['tests/security/escape.test.ts', 'lets no file call out through a link that is exchanged while it runs'],
    ['tests/security/file-races.test.ts', '*'],
  ),
  held(
    'F-39',
    'Listings and searches say nothing about what a link outside points to',
    ['tests/security/escape.test.ts', 'follows no link out of the roots in any file call'],
    ['packages/runner-client/test/files-hostile.test.ts', 'removal, walk and search do not follow any'],
    ['tests/contract/sidecar-files.test.ts', 'finds lines in files, hidden ones too, and follows no link'],
    ['tests/contract/sidecar-files.test.ts', 'lists direct children, pipes too, and nothing that leads out'],
  ),
  held('F-40', 'Text fields of file calls are capped', [
    'tests/contract/sidecar-files.test.ts',
    'takes ten million characters, however they are written, and no more',
  ]),
  held(
    'F-41',
    "A file's size is known before it is read",
    ['tests/contract/sidecar-files.test.ts', 'refuses what is too large before it reads it, and what is no text'],
    ['tests/contract/sidecar-files.test.ts', 'refuses what makes no sense'],
    ['tests/contract/sidecar-images.test.ts', 'refuses what is no image'],
  ),
  held(
    'F-42',
    "A replacement keeps the file's mode, a read-only one's too",
    ['tests/contract/sidecar-files.test.ts', 'keeps every other byte, line ends, modes and links'],
    ['packages/runner-client/test/files-unchanged.test.ts', 'a file that is closed for writing keeps its mode'],
  ),
  held(
    'F-43',
    'No pattern can stop the service',
    ['tests/contract/sidecar-files.test.ts', 'says what is wrong with a pattern, and stops at its bounds'],
    ['tests/contract/sidecar-files.test.ts', 'reads a hundred MiB and no more'],
    ['tests/contract/sidecar-files.test.ts', 'answers with what was found until then, and searches no longer'],
  ),
  held('F-44', "Made directories belong to the sandbox's user", [
    'tests/contract/files.test.ts',
    'gives back what was written, to calls and to commands',
  ]),
  coming('F-45', "The shared terminal's server can't be reached from inside", 'terminals'),
  coming('F-46', 'No configuration of the workspace is read by our own programs', 'terminals'),
  coming('F-47', 'A dropped connection does not end a terminal; another name is another terminal', 'terminals'),
  held('F-48', 'Long interpreter answers pass whole, longer ones are marked as cut', [
    'tests/contract/interpreter.test.ts',
    'is answered whole below the cap, and cut and marked above it',
  ]),
  coming(
    'F-49',
    'An error of a page is an answer, a hang ends the process, and the next call is fresh',
    'browser and desktop',
  ),
  coming('F-50', 'A picture that is too large is an error, never cut', 'browser and desktop'),
  held('F-51', 'Only what must have a network has one', [
    'tests/security/escape.test.ts',
    'reaches no listener of the host',
  ]),
  coming('F-52', 'A desktop that starts half is taken down', 'browser and desktop'),
  coming('F-53', 'Previews stream, within limits, and close their connection on every path', 'previews'),
  coming('F-54', 'Ports are exposed only where they may be, and released', 'previews'),
  coming(
    'F-55',
    'One bad address among several refuses a destination; the judged address is the one that is used',
    'outbound HTTP and secrets broker',
  ),
  held('F-56', 'Private, link-local and mapped addresses are refused in every spelling', [
    'packages/policy/test/destination-corpus.test.ts',
    '$id ($class): $why',
  ]),
  coming(
    'F-57',
    'A secret goes only to its own hosts; what was not granted looks like what does not exist',
    'outbound HTTP and secrets broker',
  ),
  held('F-58', 'Ids are no metric labels', [
    'tests/contract/sidecar-command.test.ts',
    'counts neither as use nor in metrics what shows no token',
  ]),
  coming('F-59', 'Checksums of the S3 client suit other stores', 'object storage'),
  coming('F-60', 'Storage settings reach the sidecar under the names it reads', 'object storage'),
  held(
    'F-61',
    'A confirmed flush names what is stored and drops what is not',
    ['tests/contract/sidecar-storage.test.ts', 'confirms all that is stored, also what an earlier flush has stored'],
    [
      'tests/contract/sidecar-storage.test.ts',
      'says what it could not read, and takes nothing away that it could not look at',
    ],
  ),
  coming('F-62', 'An image has every module and starts', 'release'),
  coming('F-63', 'Frames of a language server are counted in bytes', 'Node interpreter and language servers'),
  held('W-01', 'After configure nothing of the former session is there, or the call fails', [
    'tests/contract/sidecar.test.ts',
    'begins generations, each without anything of the one before',
  ]),
  held(
    'W-02',
    'A stop that reports success has ended every process',
    ['tests/contract/exec.test.ts', 'with every daemon dead before a deadline is answered'],
    ['tests/contract/sidecar-commands.test.ts', 'leave nothing alive after %s, daemons that ignore signals included'],
  ),
  held('W-03', 'A deadline ends the command and not only its wrapper', [
    'tests/contract/exec.test.ts',
    'with every daemon dead before a deadline is answered',
  ]),
  held(
    'W-04',
    'A child in a session of its own ends with its command',
    ['tests/contract/exec.test.ts', 'with every daemon dead before a deadline is answered'],
    ['tests/contract/sidecar-commands.test.ts', 'leave nothing alive after %s, daemons that ignore signals included'],
  ),
  held(
    'W-05',
    'A command of an older generation writes nothing into the next one',
    ['tests/contract/sidecar.test.ts', 'begins generations, each without anything of the one before'],
    ['tests/contract/sidecar-commands.test.ts', 'takes with it what was asked for in it, however late that comes'],
  ),
  held(
    'W-06',
    'An exchanged link leaks nothing by a view',
    ['tests/security/escape.test.ts', 'lets no file call out through a link that is exchanged while it runs'],
    ['tests/security/file-races.test.ts', '*'],
  ),
  held('W-07', 'An exchanged link leaks nothing by sync', [
    'tests/contract/sidecar-storage.test.ts',
    'gets nothing from outside of its sandbox into the store',
  ]),
  held(
    'W-08',
    'A wipe covers entries of every owner, and skills',
    ['tests/contract/sidecar-session.test.ts', 'covers /tmp and everything below it, closed or not'],
    [
      'tests/contract/sidecar-session.test.ts',
      'stay over a restart and for their session, and are gone for every other one',
    ],
  ),
  held(
    'W-09',
    "File calls overwrite, nest and read closed files of the sandbox's user",
    ['tests/contract/files.test.ts', 'gives back what was written, to calls and to commands'],
    ['tests/contract/sidecar-images.test.ts', 'copies files among the outputs and stores them'],
  ),
  held(
    'W-10',
    'Restored keys are parsed and follow no link',
    ['tests/contract/sidecar-storage.test.ts', 'follows no link of a manifest'],
    ['packages/storage/test/fs-object-store.test.ts', 'stay below the directory, or are refused'],
    ['packages/storage/test/manifest.test.ts', 'of anything at all is read or refused'],
  ),
  held('W-11', 'Commands have filter, capabilities and limits of their own', [
    'tests/security/posture.test.ts',
    'is the one expected posture, for every thread, and effective says the same',
  ]),
  held('W-12', 'Commands are not found by a pattern, and killing anything inside disables nothing', [
    'tests/security/escape.test.ts',
    'survives kill -9 of PID 1 and of everything, and so does a sibling',
  ]),
  held('W-13', 'No command reads the environment or memory of another', [
    'tests/security/escape.test.ts',
    'shares nothing with a sibling, nor between two running commands of one sandbox',
  ]),
  held(
    'W-14',
    'Writes are atomic and parallel edits are not lost',
    ['tests/contract/sidecar-files.test.ts', 'is seen whole or not at all, whoever reads meanwhile'],
    ['tests/contract/sidecar-files.test.ts', 'loses no edit of thirty that come at once'],
    ['packages/runner-client/test/files-unchanged.test.ts', 'what somebody else puts there meanwhile stays'],
    ['tests/contract/sidecar-session.test.ts', 'of calls at the same time are one of the sets, never a mixture'],
  ),
  held(
    'W-15',
    'Long output or a child that holds a pipe delays no answer',
    ['tests/contract/exec.test.ts', 'when the command ends, not when its daemons close the pipes'],
    ['tests/contract/sidecar.test.ts', 'answers with the first bytes and says so; the record has more'],
  ),
  held(
    'W-16',
    "An interpreter's protocol can't be forged or blocked by the code it runs",
    [
      'tests/contract/interpreter.test.ts',
      'forges no answer to its own call or to a later one, and what it wrote is counted',
    ],
    ['tests/contract/interpreter.test.ts', 'by a flood ends its own call, and the next one is served'],
    ['tests/contract/interpreter.test.ts', 'is answered whole below the cap, and cut and marked above it'],
    ['tests/contract/interpreter.test.ts', 'may leave by sys.exit, which ends nothing'],
    ['packages/sidecar/test/interpreter-driver.test.ts', 'forges no answer, by any of its descriptors'],
    ['packages/sidecar/test/interpreter-driver.test.ts', 'may be long, and raw on standard error, without a stop'],
  ),
  held(
    'W-17',
    "What a user's code does is never a 502 to 504",
    ['packages/protocol/test/errors.test.ts', '%s has a status, and a hint that says what to do'],
    ['tests/contract/interpreter.test.ts', '%s: an answer that says so, and the next call is served afresh'],
    ['tests/contract/interpreter.test.ts', 'at its deadline is interrupted, and its state kept'],
    ['tests/compatibility/library.test.ts', 'ask once for what fails, whatever it is'],
  ),
  held(
    'W-18',
    'A flush says what it has not stored; deletions, modes and links survive',
    [
      'tests/contract/sidecar-storage.test.ts',
      'stores modes, links, empty directories and every name, and another sandbox gets them back',
    ],
    ['tests/contract/sidecar-storage.test.ts', 'removes what was removed, and stores what took its place'],
    ['tests/contract/sidecar-storage.test.ts', 'confirms all that is stored, also what an earlier flush has stored'],
    [
      'tests/contract/sidecar-storage.test.ts',
      'refuses to begin a use whose files it can not have, and begins it when it can',
    ],
  ),
  held(
    'W-19',
    'Bytes and line ends are kept, bad input is a clear refusal that does not repeat it',
    ['tests/contract/sidecar-files.test.ts', 'writes what it is given, byte for byte, with its directories'],
    ['tests/contract/sidecar-files.test.ts', 'keeps every other byte, line ends, modes and links'],
    ['tests/contract/sidecar-files.test.ts', 'shows a text as it is'],
    ['tests/contract/sidecar-files.test.ts', 'refuses what it can not do with the reason'],
  ),
  coming('W-20', 'Previews pass bytes as they are, WebSockets too', 'previews'),
  held(
    'W-21',
    'Ended processes are pruned, input never blocks, caps have no race',
    ['tests/contract/sidecar-commands.test.ts', 'that have ended are kept in a bounded number, the newest ones'],
    [
      'tests/contract/sidecar-commands.test.ts',
      'that do not read their input keep nobody waiting, and are told what they got',
    ],
    ['tests/contract/sidecar-commands.test.ts', 'are as many at once as may be, also when all are asked for together'],
  ),
  coming('W-22', 'A viewer who leaves ends nothing for the others', 'browser and desktop'),
  coming('W-23', 'A missing optional program fails only what needs it', 'terminals'),
  held(
    'W-24',
    'A pipe, device or socket in place of a file blocks nobody',
    [
      'packages/runner-client/test/files-hostile.test.ts',
      'pipes, sockets and ignore files that are pipes block nobody',
    ],
    ['tests/contract/sidecar-files.test.ts', 'answers at once while a hundred calls meet a pipe'],
  ),
  held(
    'W-25',
    'Nothing blocks the event loop',
    [
      'tests/contract/sidecar-files.test.ts',
      'lists a hundred thousand entries whole and in pages, and answers others meanwhile',
    ],
    ['packages/sidecar/test/images.test.ts', 'ends what takes longer than it may, and what is left'],
    ['packages/sidecar/test/images.test.ts', 'ends what takes more memory than it may'],
  ),
  held(
    'W-26',
    'Timeouts, concurrency, bodies and pages have bounds',
    ['tests/contract/sidecar-commands.test.ts', 'bounds the time that a command may ask for'],
    [
      'packages/sidecar/test/session.test.ts',
      'runs a bounded number of commands at once, also when all are asked for together',
    ],
    ['tests/security/sidecar-fuzz.test.ts', '*'],
  ),
  held('W-27', 'Unauthenticated requests make no metric labels', [
    'tests/contract/sidecar-command.test.ts',
    'counts neither as use nor in metrics what shows no token',
  ]),
  coming(
    'W-28',
    'An outbound request names no other host, is scrubbed before it is cut, and has limits',
    'outbound HTTP and secrets broker',
  ),
  held('W-29', 'Every usual encoding of a secret is redacted', [
    'packages/policy/test/redactor.test.ts',
    'replaces every spelling of a value, and nothing around it',
  ]),
  coming('W-30', 'What has a network reaches no service of ours', 'browser and desktop'),
  held(
    'W-31',
    'Only authenticated use counts as activity, WebSockets too',
    ['tests/contract/sidecar-command.test.ts', 'counts neither as use nor in metrics what shows no token'],
    ['tests/contract/sidecar-command.test.ts', 'is in use while somebody is attached by a WebSocket'],
  ),
  held(
    'W-32',
    'Without a key pair nothing is served in clear by surprise',
    ['tests/contract/daemon.test.ts', 'listens beyond this machine with TLS only'],
    ['packages/local/test/serve/tls.test.ts', '%s with %s is refused'],
    ['tests/contract/sidecar-command.test.ts', 'is refused in one sentence, with a hint: %s'],
    ['tests/contract/sidecar-command.test.ts', 'has half a key pair, or a word for clear text beside one'],
  ),
  held(
    'W-33',
    'Health and errors disclose no ids, paths or texts of libraries',
    ['tests/contract/sidecar.test.ts', 'shows with health whose it is, and only with it'],
    ['packages/server/test/errors.test.ts', 'that nobody expected say nothing, and are in the log'],
  ),
  coming('W-34', 'Every feature can be configured through the manager', 'Kubernetes'),
  held('W-35', 'A command has its three descriptors and no other', [
    'tests/security/posture.test.ts',
    'is the one expected posture, for every thread, and effective says the same',
  ]),
  coming('8a-1', 'The token is only in a secret', 'Kubernetes'),
  held(
    '8a-2',
    'A placeholder or missing token means 503',
    ['tests/contract/sidecar-authentication.test.ts', 'is 503 where no token is configured, with the placeholder too'],
    ['tests/contract/sidecar-command.test.ts', 'serves health and refuses all else: %s'],
  ),
  held(
    '8a-3',
    'Authentication in constant time, before a WebSocket is accepted',
    [
      'tests/contract/sidecar-authentication.test.ts',
      'asks for the token, whatever else is wrong, and before it upgrades',
    ],
    [
      'packages/sidecar/test/session-registry.test.ts',
      'is found by its hash, which is compared in constant time, and never by its text',
    ],
  ),
  coming('8a-4', "A pod's secret is read once", 'Kubernetes'),
  coming('8a-5', 'On a conflict the stored credential is adopted', 'Kubernetes'),
  coming('8a-6', 'A reused pod gets fresh credentials', 'Kubernetes'),
  coming('8a-7', 'Credentials are kept by pod, not by address', 'Kubernetes'),
  held('8a-8', 'No key goes over plain HTTP to another machine', [
    'packages/sdk/test/client.test.ts',
    'the URL %s is refused and not shown',
  ]),
  held(
    '8a-9',
    'Nothing is published on all interfaces unasked',
    ['tests/contract/daemon.test.ts', 'says what it is'],
    ['packages/local/test/serve/launch-daemon.test.ts', 'has defaults, and nothing is made by looking at it'],
  ),
  coming('8a-10', 'Refreshing a service token neither blocks nor hammers', 'Kubernetes'),
  held('8a-11', 'A sandbox that never becomes ready leaves nothing', [
    'tests/contract/leaks.test.ts',
    'are none after sandboxes that could not be made',
  ]),
  coming('8a-12', 'One removal that fails does not stop the others', 'Kubernetes'),
  coming('8a-13', 'Two creates of one session are one; a held lock is never dropped', '/v1 API'),
  coming('8a-14', 'Recovery restores everything once', 'Kubernetes'),
  coming('8a-15', 'A kept endpoint is checked before it is used', 'Kubernetes'),
  coming('8a-16', 'Ended pods are removed', 'Kubernetes'),
  coming('8a-17', 'The pool fills also where processors are throttled', 'Kubernetes'),
  coming('8a-18', 'Storage settings have one documented precedence', 'object storage'),
  coming('8a-19', 'A restore carries the configuration and leaves nothing when it fails', 'snapshots'),
  coming('8a-20', 'Limits hold across replicas', 'quotas and rate limits'),
  coming('8a-21', 'Both spellings of a database address work', '/v1 API'),
  coming('8a-22', 'A recycled pod has no label of its former session', 'Kubernetes'),
  held(
    '8a-23',
    'configure resets everything that could survive',
    ['tests/contract/sidecar-commands.test.ts', 'leave nothing alive after %s, daemons that ignore signals included'],
    ['tests/contract/sidecar-commands.test.ts', 'are forgotten by configure, also when one is being asked for'],
    ['tests/contract/interpreter.test.ts', 'ends with its use, and with it what it has started'],
    ['tests/contract/sidecar-session.test.ts', 'stays over a restart, and is gone with its use, for good'],
    ['tests/contract/sidecar.test.ts', 'begins generations, each without anything of the one before'],
  ),
  coming('8a-24', 'No egress policy is inherited', 'Kubernetes'),
  held('8a-25', 'The filter is set on the real thing, not only promised', ['tests/security/weakened.test.ts', '*']),
  held('8a-26', 'The set of capabilities is exact', [
    'tests/security/posture.test.ts',
    'is the one expected posture, for every thread, and effective says the same',
  ]),
  coming('8a-27', 'Resources and volume sizes equal what is documented', 'Kubernetes'),
  coming('8a-28', 'The network policy allows nothing by a broad rule', 'Kubernetes'),
  held('8a-29', 'Addresses are judged unwrapped', [
    'packages/policy/test/destination-corpus.test.ts',
    '$id ($class): $why',
  ]),
  coming('8a-30', 'Namespace labels accept our pods', 'Kubernetes'),
  held(
    '8a-31',
    'Every way to run a command passes one gate',
    ['packages/sidecar/test/gate.test.ts', 'is known to start a program, or to start none'],
    ['packages/sidecar/test/gate.test.ts', 'is asked to start something only by what asks the gate before'],
    [
      'tests/contract/allowlist.test.ts',
      'is judged at every route of /v1 that starts a program, and held by the kernel beneath',
    ],
  ),
  held('8a-32', 'Wrappers hide no program from the allowlist', [
    'packages/policy/test/command-corpus.test.ts',
    '$id ($class): $why',
  ]),
  held(
    '8a-33',
    'No parameter injects loader variables',
    ['tests/contract/sidecar.test.ts', 'refuse names that decide what is loaded'],
    [
      'packages/sidecar/test/session.test.ts',
      'takes no more of an environment than is allowed, nor secrets that can not be hidden',
    ],
  ),
  coming('8a-34', 'Git credentials pass no shell', 'adapters and MCP'),
  coming('8a-35', 'A handoff types no credential and validates ids whole', 'handoff'),
  held(
    '8a-36',
    'Output is capped while it is read; long lines break nothing',
    ['tests/contract/records.test.ts', 'drop the oldest bytes of a command whose reader is away, and name the gap'],
    ['tests/contract/exec.test.ts', 'is byte-exact on both streams, in order, with offsets'],
    ['tests/contract/sidecar.test.ts', 'answers with the first bytes and says so; the record has more'],
  ),
  held('8a-37', 'Files are opened without following links out', [
    'packages/runner-client/test/files-hostile.test.ts',
    'a race of exchanges reaches nothing outside',
  ]),
  held(
    '8a-38',
    'Sizes are checked before reading',
    ['tests/contract/sidecar-files.test.ts', 'refuses what is too large before it reads it, and what is no text'],
    ['tests/contract/sidecar-images.test.ts', 'refuses what is no image'],
  ),
  held(
    '8a-39',
    'A tool call uses its own session; the budget covers all paths',
    ['tests/contract/sidecar-session.test.ts', "is made in the session's own name, whatever the caller says"],
    [
      'tests/contract/sidecar-commands.test.ts',
      'lets exactly as many calls through as it has, of twenty at once and of every kind',
    ],
  ),
  held('8a-40', 'The whole tree ends; what a crash leaves is swept', [
    'tests/contract/kill.test.ts',
    'of the runner: nothing is alive at once, and the next start sweeps the rest',
  ]),
  coming('8a-41', "The terminal's server is out of reach", 'terminals'),
  held('8a-42', 'An edit needs no capability', [
    'tests/contract/sidecar-files.test.ts',
    'keeps every other byte, line ends, modes and links',
  ]),
  coming('8a-43', "The S3 client's checksums are compatible", 'object storage'),
  coming('8a-44', 'Only registered ports are proxied', 'previews'),
  coming('8a-45', 'Bases and checksums are pinned and compared', 'release'),
  coming('8a-46', 'An image holds every module', 'release'),
  held(
    '8a-47',
    'Versions are exact and one',
    ['tests/architecture/imports.test.ts', 'names exact versions'],
    ['tests/architecture/imports.test.ts', 'is what package-lock.json says; otherwise run make lock'],
  ),
  held(
    '8a-48',
    'doctor gives no false verdict and goes on after a failure',
    [
      'packages/local/test/doctor.test.ts',
      'a missing needed layer means no sandboxes; one that is not needed does not',
    ],
    ['tests/contract/cli.test.ts', 'says how sandboxes work here, for people and for programs'],
  ),
  held(
    '8a-49',
    'Discovery starts nothing that is not ours',
    ['packages/sdk/test/discovery.test.ts', 'is not used where %s'],
    ['packages/sdk/test/discovery.test.ts', 'is not used in a directory of mode %o'],
    [
      'packages/local/test/serve/detach.test.ts',
      'the answer of another daemon at the same socket is none of the one that is started',
    ],
  ),
  coming('8a-50', "The chart's schema accepts what is valid", 'Kubernetes'),
  coming('8a-51', 'Sign-in is bound to its browser and limited', 'accounts and sign-in'),
  coming('8a-52', "Adapters speak each framework's own form", 'adapters and MCP'),
  held('8b-1', 'Recycling erases, or fails', [
    'tests/contract/sidecar.test.ts',
    'begins generations, each without anything of the one before',
  ]),
  coming('8b-2', 'A customised pod never returns to the pool', 'Kubernetes'),
  held(
    '8b-3',
    'Daemons, shared memory and foreign files do not survive',
    ['tests/contract/envelopes.test.ts', 'end when a command leaves %s'],
    ['tests/contract/envelopes.test.ts', 'show the next command nothing of %s'],
  ),
  coming('8b-4', 'The documented permissions suffice', 'Kubernetes'),
  coming('8b-5', "WebSockets use the sidecar's TLS", 'Kubernetes'),
  coming('8b-6', "Every connection mode speaks the port's protocol", 'Kubernetes'),
  held(
    '8b-7',
    'No client timeout is shorter than what a tool promises',
    ['tests/compatibility/patience.test.ts', 'is answered, although the library gives up after 120 s of silence'],
    ['packages/sidecar/test/patience.test.ts', 'a client that gives up in silence hears something while it waits'],
  ),
  held(
    '8b-8',
    'Only idempotent calls are sent again',
    ['packages/sdk/test/cuts.test.ts', 'what may have been done is not sent again'],
    ['packages/sdk/test/cuts.test.ts', 'a command is started once, wherever its connection is cut'],
  ),
  coming('8b-9', 'A configure that fails leaves no claimed pod', 'Kubernetes'),
  held(
    '8b-10',
    'A reuse honours or refuses every parameter',
    ['packages/server/test/execs.test.ts', 'makes one sandbox, and answers the same again'],
    ['tests/contract/sidecar.test.ts', 'begins generations, each without anything of the one before'],
  ),
  coming('8b-11', 'Deletes have preconditions, and an active pod is not reaped', 'Kubernetes'),
  coming('8b-12', 'One planner at a time; only spare pods count as spare', 'Kubernetes'),
  coming('8b-13', 'Policies of a session end with it', 'Kubernetes'),
  coming('8b-14', 'Secrets have an owner', 'Kubernetes'),
  coming('8b-15', 'Names are valid and clients closed', 'Kubernetes'),
  coming('8b-16', "Rules for the sidecar's own destinations are explicit", 'Kubernetes'),
  coming('8b-17', 'Chart values have effect; empty lists allow nothing', 'Kubernetes'),
  coming('8b-18', 'Admission and tenant policies cover what they say', 'Kubernetes'),
  held(
    '8b-19',
    'The allowlist resists its known bypasses and fails closed',
    ['packages/policy/test/command-corpus.test.ts', '$id ($class): $why'],
    ['packages/policy/test/allowlist.test.ts', 'refuses %j at %s'],
  ),
  coming('8b-20', 'A view names the lines that it shows', 'adapters and MCP'),
  held(
    '8b-21',
    'Redaction has no known gap',
    ['packages/policy/test/redaction-corpus.test.ts', '*'],
    ['packages/sidecar/test/redaction.test.ts', '*'],
  ),
  held('8b-22', 'Two sandboxes of one machine never share or wipe each other', [
    'tests/security/escape.test.ts',
    'shares nothing with a sibling, nor between two running commands of one sandbox',
  ]),
  coming('8b-23', 'A handoff carries any bytes, and ids are no options', 'handoff'),
  coming('8b-24', "Storage credentials are a session's own", 'object storage'),
  held('8b-25', 'Documents equal the code', ['tests/architecture/docs.test.ts', '*']),
  coming('8b-26', 'A pod is specified once', 'Kubernetes'),
  held('6.1-T1', 'Parallel creates never exceed a cap', [
    'packages/manager/test/sandbox-manager.test.ts',
    'is never exceeded by creates at once, per account and in all',
  ]),
  held('6.1-T2', 'A slow start holds up nobody else', [
    'packages/manager/test/sandbox-manager.test.ts',
    'is not held up by a slow start of somebody else',
  ]),
  coming('6.1-T3', 'Two servers together keep the cap', 'quotas and rate limits'),
  held('6.1-T4', 'A create that fails frees its place at once', [
    'packages/manager/test/sandbox-manager.test.ts',
    'that fails to start leaves nothing, and its place is free at once',
  ]),
  held('6.1-T5', 'A sandbox whose name could not be stored is destroyed', [
    'packages/manager/test/sandbox-manager.test.ts',
    'in the middle of a create leaves nothing',
  ]),
  held(
    '6.1-T6',
    'No lock is left by an error',
    [
      'packages/server/test/database.test.ts',
      'a disk that is full is said to be, again and again, and takes everything when there is room',
    ],
    [
      'packages/server/test/database.test.ts',
      'with a full disk says so, goes on with what runs, and is well again when there is room',
    ],
  ),
  held(
    '6.1-T7',
    'What must survive a restart of the server does',
    [
      'packages/server/test/database.test.ts',
      'writes its key for its own user alone, keeps it over a restart of the process, and makes a new one for a new run',
    ],
    ['packages/server/test/database.test.ts', 'keeps keys over restarts, and stores no key'],
    ['packages/manager/test/sandbox-manager.test.ts', 'takes over what runs, with deadlines'],
  ),
  held('6.1-T8', 'A sandbox past its time is destroyed with that reason', [
    'packages/manager/test/sandbox-manager.test.ts',
    'destroys, counts elapsed time, and is unmoved by jumps of the clock',
  ]),
  held('6.1-T9', 'An unknown name at create makes nothing', [
    'packages/server/test/sandboxes.test.ts',
    '%j is refused and makes nothing',
  ]),
  coming('6.1-T10', 'An image or volume that is not ready is refused, never left out', 'images and volumes'),
  coming('6.1-T11', 'A secret and a connection may share a name', 'outbound HTTP and secrets broker'),
  held(
    '6.1-T12',
    'A timeout above the bound is refused',
    ['packages/server/test/execs.test.ts', 'refuses %j'],
    ['packages/protocol/test/v1.test.ts', 'an exec of %j: %s'],
  ),
  held('6.1-T13', "A GPU that can't be had is a clear refusal", [
    'packages/server/test/sandboxes.test.ts',
    '%j is refused and makes nothing',
  ]),
  held('6.1-T14', 'An id of somebody else is like one that does not exist, on every route', [
    'packages/server/test/sandboxes.test.ts',
    'is answered as one that is not there, by every route',
  ]),
  held('6.1-T15', 'A destroyed or unknown sandbox is refused on every operation', [
    'packages/server/test/sandboxes.test.ts',
    'is looked at, and is not there for everything else',
  ]),
  held('6.1-T16', "A sandbox belongs to its caller's account", [
    'packages/server/test/sandboxes.test.ts',
    'is its own: made, listed, counted, used and destroyed by its keys',
  ]),
  coming('6.1-T17', 'A recording is read only with its own entry', 'audit log'),
  held('6.1-T18', 'An allowlist binds its own account only', [
    'tests/contract/allowlist.test.ts',
    'binds its own sandbox and account alone',
  ]),
  coming('6.1-T19', 'A credential works only in its own place', 'accounts and sign-in'),
  held('6.1-T20', 'A revoked key ends at the next request', [
    'packages/server/test/errors.test.ts',
    'are made, shown once, used and revoked',
  ]),
  held('6.1-T21', 'No key in a URL', [
    'packages/server/test/errors.test.ts',
    'are taken from no URL, and none is logged',
  ]),
  coming('6.1-T22', 'Takeover needs its role', 'terminals'),
  coming('6.1-T23', 'A single-use token works once, in time, for its sandbox', 'terminals'),
  coming('6.1-T24', 'A read-only observer types nothing', 'terminals'),
  coming('6.1-T25', 'A deactivated account is refused everywhere at once', 'accounts and sign-in'),
  coming('6.1-T26', 'Addresses are compared in one case', 'accounts and sign-in'),
  coming('6.1-T27', 'A wrong password looks like an unknown address', 'accounts and sign-in'),
  held(
    '6.1-T28',
    'No refusal repeats what was sent',
    ['packages/protocol/test/schemas.test.ts', 'never repeats the input in its answer'],
    ['packages/server/test/errors.test.ts', 'of bodies say what is wrong with them'],
  ),
  coming('6.1-T29', 'A refresh token that is used twice revokes all', 'accounts and sign-in'),
  coming('6.1-T30', 'A reset token works once and ends sessions', 'accounts and sign-in'),
  coming('6.1-T31', 'A verification token works once', 'accounts and sign-in'),
  held(
    '6.1-T32',
    'Only hashes are stored; a key is shown once',
    ['packages/server/test/database.test.ts', 'keeps keys over restarts, and stores no key'],
    ['packages/server/test/errors.test.ts', 'are made, shown once, used and revoked'],
  ),
  coming('6.1-T33', 'One authorization code gives one pair', 'accounts and sign-in'),
  coming('6.1-T34', 'One refresh gives one pair', 'accounts and sign-in'),
  coming('6.1-T35', 'A token is for its resource', 'accounts and sign-in'),
  held('6.1-T36', 'No answer may be framed', [
    'packages/server/test/errors.test.ts',
    'no answer may be shown in a frame: successes, refusals, streams, bytes, what is no request',
  ]),
  coming('6.1-T37', "A sign-in's state is bound to its browser", 'accounts and sign-in'),
  coming('6.1-T38', 'No open redirect', 'accounts and sign-in'),
  coming('6.1-T39', 'Accounts are linked only where that is safe', 'accounts and sign-in'),
  coming('6.1-T40', "A sign-in never takes over another organisation's account", 'accounts and sign-in'),
  coming('6.1-T41', 'Redirects and proofs are checked exactly', 'accounts and sign-in'),
  coming('6.1-T42', 'The only way to sign in is not unlinked', 'accounts and sign-in'),
  coming('6.1-T43', 'Hostile provisioning bodies are refused cleanly', 'accounts and sign-in'),
  coming('6.1-T44', 'Provisioning signatures are checked', 'accounts and sign-in'),
  coming('6.1-T45', 'A collision of addresses changes nothing', 'accounts and sign-in'),
  coming('6.1-T46', 'Parallel writes make one chain', 'audit log'),
  coming('6.1-T47', 'A changed row is named by the verifier', 'audit log'),
  coming('6.1-T48', 'A failed operation makes no row of success', 'audit log'),
  coming('6.1-T49', "A key's id and name stand in its rows", 'audit log'),
  coming('6.1-T50', 'One recording per takeover', 'audit log'),
  coming('6.1-T51', 'A failing flush releases the recording', 'audit log'),
  coming('6.1-T52', 'A recording is redacted, bounded and tolerant', 'audit log'),
  coming('6.1-T53', 'The chain verifies after a restart in the middle', 'audit log'),
  coming('6.1-T54', "A webhook's address is judged at each attempt", 'webhooks'),
  held('6.1-T55', 'Every unsafe form of address is known', [
    'packages/policy/test/destination-corpus.test.ts',
    '$id ($class): $why',
  ]),
  coming('6.1-T56', 'Signing secrets are encrypted at rest', 'webhooks'),
  coming('6.1-T57', 'Failing receivers are retried by a schedule and given up', 'webhooks'),
  coming('6.1-T58', 'A failed restore removes its copy', 'snapshots'),
  coming('6.1-T59', 'A restore keeps its configuration', 'snapshots'),
  coming('6.1-T60', 'A snapshot that could not be deleted stays listed', 'snapshots'),
  coming('6.1-T61', 'A rotated key still reads old secrets', 'outbound HTTP and secrets broker'),
  coming('6.1-T62', 'A capability is for its session and names', 'outbound HTTP and secrets broker'),
  coming('6.1-T63', 'Preview tokens are bound, expire and are revoked one by one', 'previews'),
  coming('6.1-T64', 'No client header becomes ours', 'previews'),
  coming('6.1-T65', 'Rate limits are per account and bucket, and say when to come back', 'quotas and rate limits'),
  coming('6.1-T66', 'Replicas share a rate limit', 'quotas and rate limits'),
  coming('6.1-T67', 'What is too large is refused before work', '/v1 API'),
  held(
    '6.1-T68',
    'An idempotency key replays, conflicts and is scoped',
    ['packages/server/test/execs.test.ts', 'makes one sandbox, and answers the same again'],
    ['packages/server/test/execs.test.ts', 'of another account is another one'],
    [
      'packages/server/test/execs.test.ts',
      'refuses a second call while the first runs, and lets a failed one be tried again',
    ],
  ),
  coming('6.1-T69', 'Image builds are capped', 'images and volumes'),
  coming('6.1-T70', "A scan that can't be done refuses", 'images and volumes'),
  coming('6.1-T71', 'A demo is off, limited and bound', 'quotas and rate limits'),
  coming('6.1-T72', 'A bare database address works', '/v1 API'),
  coming('6.1-T73', 'Placeholder secrets refuse to start', '/v1 API'),
  held(
    '6.1-T74',
    'Migrations lead from nothing to the present',
    ['packages/server/test/database.test.ts', 'what was stored is there after it is opened again'],
    ['packages/server/test/database.test.ts', 'keeps keys over restarts, and stores no key'],
    ['packages/server/test/sandboxes.test.ts', 'live from POST to DELETE'],
  ),
  coming('6.1-T75', "An administrator's reads leave a trace", 'audit log'),
  coming('6.1-T76', 'Logins by SSH are limited', 'accounts and sign-in'),
  coming('6.1-T77', 'Unknown paths are one label', 'metrics'),
  coming('6.1-T78', 'Limit messages name no prices', '/v1 API'),
  coming('6.2-W1', 'Every row that is written can be read', 'audit log'),
  coming('6.2-W2', 'The chain follows one sequence and has an anchor', 'audit log'),
  held(
    '6.2-W3',
    'Kept answers hold no credential, expire and do not block',
    [
      'packages/server/test/database.test.ts',
      'are answers, for a day: they do not block after it, whether or not their call has ended',
    ],
    ['packages/server/test/database.test.ts', 'keeps keys over restarts, and stores no key'],
  ),
  coming('6.2-W4', "A client's address comes from trusted proxies only", 'quotas and rate limits'),
  coming('6.2-W5', 'Previews never share an origin with sign-in', 'previews'),
  coming('6.2-W6', 'Previews pass bytes, cookies and upgrades', 'previews'),
  coming('6.2-W7', 'Parallel refreshes: one succeeds', 'accounts and sign-in'),
  coming('6.2-W8', 'Lifetimes of tokens are enforced and revocable', 'accounts and sign-in'),
  coming('6.2-W9', 'Redirect hosts are compared whole', 'accounts and sign-in'),
  coming('6.2-W10', 'Forms check their origin; token answers are not stored', 'accounts and sign-in'),
  coming('6.2-W11', "An agent's key can't remove its own guard rails", '/v1 API'),
  held('6.2-W12', 'The allowlist is not passed by comments, options or prefixes', [
    'packages/policy/test/command-corpus.test.ts',
    '$id ($class): $why',
  ]),
  held('6.2-W13', 'No allowlist pattern can block the process', [
    'packages/policy/test/allowlist.test.ts',
    'matches a long text with nested repetition in linear time',
  ]),
  held('6.2-W14', 'A destroy that failed is not reported done', [
    'packages/manager/test/sandbox-manager.test.ts',
    'that fails is tried again by itself, and is not said to be done before',
  ]),
  held(
    '6.2-W15',
    'A destroy during a create wins',
    ['packages/manager/test/sandbox-manager.test.ts', 'during a create wins, at every step of it'],
    ['packages/manager/test/sandbox-manager.test.ts', 'while the store confirms a create wins'],
  ),
  held('6.2-W16', 'One of several parallel destroys is the destroy', [
    'packages/manager/test/sandbox-manager.test.ts',
    'by ten at once is one',
  ]),
  held('6.2-W17', 'A batch is made whole or not at all', [
    'packages/manager/test/sandbox-manager.test.ts',
    'of several at once is all or none',
  ]),
  held(
    '6.2-W18',
    'Times and sizes have lower bounds',
    ['packages/protocol/test/v1.test.ts', 'a new sandbox refuses %j'],
    ['packages/protocol/test/v1.test.ts', 'an exec of %j: %s'],
    ['packages/server/test/sandboxes.test.ts', '%j is refused and makes nothing'],
  ),
  held(
    '6.2-W19',
    'User-level failures have codes of their own',
    ['packages/server/test/files.test.ts', 'are written as text, listed, moved and removed'],
    ['packages/server/test/execs.test.ts', 'refuses %j'],
    ['packages/testing/src/contract/files.ts', 'answers %s for %j'],
  ),
  held(
    '6.2-W20',
    'Many streams and execs hold up nobody',
    ['packages/server/test/protection.test.ts', '20 readers that read nothing of 32 MiB each'],
    ['packages/server/test/protection.test.ts', 'clients that vanish in the middle of everything'],
  ),
  coming('6.2-W21', 'The log of a destroyed sandbox stays readable', 'audit log'),
  coming('6.2-W22', 'Failures and refusals are logged too', 'audit log'),
  coming('6.2-W23', 'No reserved account can be signed up', 'accounts and sign-in'),
  coming('6.2-W24', 'Unknown settings and weak secrets refuse to start', '/v1 API'),
  held(
    '6.2-W25',
    'Bodies are bounded before they are parsed',
    ['packages/server/test/errors.test.ts', 'of bodies say what is wrong with them'],
    ['packages/server/test/errors.test.ts', 'are told before a body is read'],
    [
      'packages/server/test/protection.test.ts',
      'for large bodies of one account, while others and small ones are taken',
    ],
  ),
  coming('6.2-W26', 'A signature that is no ASCII is a refusal', 'accounts and sign-in'),
  coming('6.2-W27', 'Builds that a restart has cut off are recovered', 'images and volumes'),
  coming('6.2-W28', 'Packages are named as their manager does', 'images and volumes'),
  coming('6.2-W29', 'A capability ends with its session', 'outbound HTTP and secrets broker'),
  coming('6.2-W30', 'Webhooks are delivered once, side by side, and bounded', 'webhooks'),
  coming('6.2-W31', 'Usage is measured by what overlaps, and expiry is the real one', 'quotas and rate limits'),
  coming('6.2-W32', 'Limits are checked before copying; sizes are 64 bits', 'snapshots'),
  held(
    '6.2-W33',
    'NUL and long values break nothing',
    ['packages/server/test/execs.test.ts', 'refuses %j'],
    ['packages/protocol/test/v1.test.ts', 'an exec of %j: %s'],
    ['packages/testing/src/contract/exec.ts', 'passes bytes that are no text'],
  ),
  held(
    '6.2-W34',
    'Everything kept has a retention',
    [
      'packages/server/test/database.test.ts',
      'are answers, for a day: they do not block after it, whether or not their call has ended',
    ],
    ['packages/server/test/database.test.ts', 'are records of sandboxes of which nothing is left'],
    [
      'packages/manager/test/sandbox-manager.test.ts',
      'a record is forgotten after its time, and never that of a sandbox that is there',
    ],
  ),
  coming('6.2-W35', 'Every MCP request is authenticated and bounded', 'adapters and MCP'),
  coming('6.2-W36', 'Timing tells nothing about addresses', 'accounts and sign-in'),
  coming('6.2-W37', 'Metrics and diagnostics disclose nothing', 'metrics'),
  coming('6.2-W38', 'Each kind of token has a key of its own', 'accounts and sign-in'),
  coming('6.2-W39', 'Single use and revocation hold across processes', 'terminals'),
  coming('6.2-W40', 'Nothing blocks the event loop of the server', '/v1 API'),
  coming('6.2-W41', "Roles can't remove owners", 'accounts and sign-in'),
  held(
    '6.2-W42',
    'Streams have a heart-beat, resume and end',
    ['packages/server/test/protection.test.ts', 'a stream that is silent says that it lives'],
    ['packages/server/test/execs.test.ts', 'comes as server-sent events that go on after the last one'],
  ),
  coming('6.2-W43', 'Nobody can reserve an address that is not theirs', 'accounts and sign-in'),
  held('6.2-W44', 'A refused WebSocket has a proper status', [
    'packages/server/test/execs.test.ts',
    'is refused before the upgrade, by a status',
  ]),
  coming('6.2-W45', 'Defaults suit who runs it for themselves', '/v1 API'),
];
