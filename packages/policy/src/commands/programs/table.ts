import { BUILTINS } from './builtins.ts';
import { find } from './find.ts';
import { git } from './git.ts';
import type { ProgramCheck } from './program.ts';
import { SHELLS } from './shells.ts';
import { TEXT_TOOLS } from './text-tools.ts';
import { WRAPPERS } from './wrappers.ts';
import { xargs } from './xargs.ts';

/** Programs with built-in checks, which no rule switches off. */
export const PROGRAM_CHECKS: ReadonlyMap<string, ProgramCheck> = new Map(
  Object.entries({ ...WRAPPERS, ...SHELLS, ...BUILTINS, ...TEXT_TOOLS, xargs, find, git }),
);

/** Programs that are refused even when a rule names them: they change what later names mean, or start anything. */
export const NEVER: ReadonlySet<string> = new Set(
  [
    'alias enable hash trap source . builtin unset let declare typeset local mapfile readarray shopt getopts',
    'bind compgen complete fc',
    'chroot unshare nsenter setpriv setarch linux32 linux64 i386 x86_64 uname26 prlimit chrt choom sg parallel su runuser pkexec script strace ltrace gdb',
    'vi vim view ex nvim ed emacs nano systemd-run start-stop-daemon run-parts tmux screen socat expect',
  ]
    .join(' ')
    .split(' '),
);
