export {
  CommandAllowlist,
  type CommandAllowlistConfig,
  type CommandRule,
  compileAllowlist,
  type Enforcement,
} from './commands/allowlist.ts';
export { AllowlistError } from './commands/allowlist-error.ts';
export { type CommandVerdict, judgeArguments, judgeCommand, LONGEST_COMMAND } from './commands/judge-command.ts';
export { parseAllowlist } from './commands/parse-allowlist.ts';
export {
  DestinationAllowlist,
  type DestinationRequest,
  type DestinationVerdict,
  judgeDestination,
} from './destinations/judge-destination.ts';
export { refusedBesideAllowlist, refusedEnvironmentName } from './environment-names.ts';
export { KNOWN_VALUE_LIMITS, KnownValuesError, SHORTEST_KNOWN_VALUE } from './known-limits.ts';
export { type KnownSecrets, KnownValues } from './known-values.ts';
export {
  type PathOperation,
  type PathProblem,
  type PathVerdict,
  resolveSandboxPath,
} from './paths/resolve-sandbox-path.ts';
export {
  type ByteRedactor,
  createByteRedactor,
  createRedactor,
  hideCredentials,
  hideSecrets,
  type PatternPosition,
  type Redactor,
  type RedactorOptions,
  type RedactorPosition,
} from './redactor.ts';
