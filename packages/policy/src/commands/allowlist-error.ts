/** Where a configuration was read from. */
export interface ConfigurationPlace {
  /** The file, or what it is called. */
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
}

/** A configuration is wrong. No part of it is used. */
export class AllowlistError extends Error {
  /** Stable code for programs. */
  readonly code = 'invalid_command_allowlist';
  /** Where in the configuration, such as `commands[2].args_allow[0]`. */
  readonly key: string;
  /** What is wrong there, in words that follow the key. */
  readonly problem: string;
  /** `null` where the configuration is no text. */
  readonly file: string | null;
  readonly line: number | null;

  /** @param key Where. @param problem What is wrong there, in words that follow the key. */
  constructor(key: string, problem: string, options: Partial<ConfigurationPlace> & ErrorOptions = {}) {
    const { file, line } = options;
    super(file === undefined ? `${key} ${problem}` : `${file}:${line ?? 1}: ${key} ${problem}`, options);
    this.name = 'AllowlistError';
    this.key = key;
    this.problem = problem;
    this.file = file ?? null;
    this.line = line ?? null;
  }

  /** The same error with its place. */
  at(place: ConfigurationPlace): AllowlistError {
    return new AllowlistError(this.key, this.problem, { ...place, cause: this.cause });
  }
}
