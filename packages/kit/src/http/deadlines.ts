/** How long a client may take. None of it cuts a stream that moves. */
export const times = {
  /** Until the headers of a request are there. */
  headersMs: 15_000,
  /** Until a body that is parsed is there. */
  bodyMs: 60_000,
  /** For the rest of a body that nobody waits for. */
  unreadMs: 5_000,
  /** Without one byte of an upload. */
  uploadIdleMs: 60_000,
  /** Between two requests of a connection. */
  keepAliveMs: 75_000,
  /** Between two looks at connections that are too slow. */
  checkMs: 5_000,
  /** For calls to end when the daemon does. */
  closeMs: 5_000,
} as const;

/** How much a client may send before anything is parsed, and leave unread. */
export const sizes = {
  headers: 32 * 1024,
  /** Bodies of JSON. */
  json: 16 * 1024 * 1024,
  /** A body up to here is always taken. */
  freeBody: 64 * 1024,
  /** Larger bodies that are held at once, in all and of one account. */
  bodies: 512 * 1024 * 1024,
  bodiesOfAccount: 256 * 1024 * 1024,
  /** Answers that are whole in memory and not read yet, in all and of one account. */
  answers: 512 * 1024 * 1024,
  answersOfAccount: 256 * 1024 * 1024,
  /** Arrays and objects of a larger body of JSON. */
  containers: 10_000,
  /** Standard input of a command, at once. */
  input: 16 * 1024 * 1024,
  parameter: 256,
} as const;
