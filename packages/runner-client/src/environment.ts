/** What every command finds in its environment, whoever started it; nothing of the caller's own is in it. */
export const COMMAND_ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: '/workspace',
  USER: 'sandbox',
  LOGNAME: 'sandbox',
  LANG: 'C.UTF-8',
  TMPDIR: '/tmp',
  SHELL: '/bin/sh',
};

/** The kind of terminal that a command is told of unless the request names one. */
export const TERMINAL_TYPE = 'xterm-256color';
