/** Sizes and counts that more than one package agrees on. */

/** What a sandbox has where its spec does not say otherwise. */
export const sandboxDefaults = {
  /** MiB of memory of one command. */
  memory_mb: 1024,
  /** Processes and threads of one command. */
  pids: 256,
  /** MiB of the five roots together. */
  workspace_mb: 1024,
  /** Inodes of the five roots together. */
  inodes: 262_144,
} as const;

/** What each number of a sandbox may be: the runner's own bounds, so that a refusal comes before anything is made. */
export const sandboxBounds = {
  memory_mb: { least: 16, most: 16 * 1024 * 1024 },
  pids: { least: 2, most: 1_000_000 },
  /** The one that need not be a whole number. */
  cpus: { least: 0.01, most: 4096 },
  workspace_mb: { least: 1, most: 16 * 1024 * 1024 },
  inodes: { least: 64, most: 2 ** 30 },
} as const;

/** Bytes of arguments and environment of one command together, four bytes a string included. */
export const maxArgumentBytes = 3 * 1024 * 1024;

/** Bytes of standard input that travel with the request; more are streamed behind it. */
export const maxInlineStdinBytes = 64 * 1024;

/** Bytes of a path, as the kernel has it. */
export const maxPathBytes = 4095;

/** Columns or rows of a terminal. */
export const maxTerminalSize = 65_535;

/** Bytes per stream that the runner keeps of what is not committed; with a reader away, or `block`, more waits in the command. */
export const spoolBytes = 1024 * 1024;

/** Bytes that the record of an exec keeps per stream where its request does not say. */
export const defaultOutputBytes = 8 * 1024 * 1024;

/** Largest value of a count of MiB, processes or inodes: an unsigned 32-bit number. */
export const maxCount = 0xffff_ffff;

/** Longest life of a sandbox in minutes: a year. */
export const maxLifetimeMinutes = 525_600;
