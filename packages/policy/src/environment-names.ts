import { isPlainLocale } from './commands/judgement.ts';

/** Names by which a shell, a loader or an interpreter is told to run something before the program that was asked for. */
const REFUSED: ReadonlySet<string> = new Set([
  'PATH',
  'IFS',
  'ENV',
  'BASH_ENV',
  'BASH_FUNC',
  'LD_PRELOAD',
  'LD_LIBRARY_PATH',
  'LD_AUDIT',
  'DYLD_INSERT_LIBRARIES',
  'DYLD_LIBRARY_PATH',
  'DYLD_FRAMEWORK_PATH',
  'PYTHONSTARTUP',
  'PYTHONPATH',
  'PERL5OPT',
  'NODE_OPTIONS',
  'NODE_PATH',
]);

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Why a variable may not be set by a request, in words that follow its name; `null` where it may. */
export function refusedEnvironmentName(name: string): string | null {
  if (!NAME.test(name)) return 'is no name of a variable: letters, digits and "_", no digit first';
  return REFUSED.has(name.toUpperCase()) ? 'may not be set: it decides which code is loaded' : null;
}

/**
 * Variables by which a listed program is told to start another one, to load code, or where its configuration is that does:
 * whoever sets them decides what runs beside the list.
 */
const STEERING = [
  /^(?:SHELL|VISUAL|BROWSER|PWD|OLDPWD|PS[0-4]|TERMINFO|TERMCAP|CC|CXX|LOCALE_ARCHIVE|TAPE|ZIP|UNZIP|EXINIT|VIMINIT|ZDOTDIR)$/,
  /^(?:KUBECONFIG|AWS_(?:CONFIG|SHARED_CREDENTIALS)_FILE|GO(?:ENV|ROOT|TOOLCHAIN|TOOLDIR)|TEXMFCNF)$/,
  /(?:PATH|EDITOR|PAGER|SHELL|OPTS?|OPTIONS|ARGS|FLAGS|COMMAND|CMD|ASKPASS|_RSH|_SSH|LIB|PRELOAD|WRAPPER|HOOKS?|HOME)$/,
  // Names of configuration files: WGETRC, INPUTRC, PSQLRC. Not DATA_SRC.
  /[^S_]RC$/,
  /^(?:LD_|DYLD_|GLIBC_|MALLOC_|GCONV|GETCONF_|BASH|GIT_|LESS|MAN|XDG_|TAR_|GREP_|RSYNC_|SSH_|SUDO_|DOCKER_|AWKPATH|AWKLIB)/,
  /^(?:OPENSSL_|GTK_|GIO_|QT_)/,
  /^(?:NPM_CONFIG_|PIP_|UV_|CARGO_|RUST|PERL|RUBY|BUNDLE|GEM_|JAVA|_JAVA|JDK_|NODE_|DENO_|BUN_|LUA_|PHP|R_|JULIA_|ERL_|GUILE_|TCL)/,
];
/** Of Python those that change how it prints. */
const PYTHON = /^PYTHON(?!UNBUFFERED$|DONTWRITEBYTECODE$|IOENCODING$|UTF8$|HASHSEED$)/;

/** By these a shell reads text. */
const LOCALES: ReadonlySet<string> = new Set(['LC_ALL', 'LC_CTYPE', 'LANG']);

/** Why a request may not set a variable for a command that a list decides about; `null` where it may. */
export function refusedBesideAllowlist(name: string, value: string): string | null {
  const folded = name.toUpperCase();
  if (LOCALES.has(name) && !isPlainLocale(value)) {
    return 'may be C, POSIX or a locale of UTF-8 beside a list of commands: others change how a shell reads text';
  }
  const steers = STEERING.some((pattern) => pattern.test(folded)) || PYTHON.test(folded);
  return steers ? 'may not be set beside a list of commands: it decides what a listed program runs' : null;
}
