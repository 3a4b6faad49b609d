export { KNOWN_VALUE_LIMITS, KnownValuesError, SHORTEST_KNOWN_VALUE } from './known-limits.ts';
export { type KnownSecrets, KnownValues } from './known-values.ts';
export {
  type ByteRedactor,
  createByteRedactor,
  createRedactor,
  type Redactor,
  type RedactorOptions,
} from './redactor.ts';
