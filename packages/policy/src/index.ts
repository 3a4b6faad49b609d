export {
  KNOWN_VALUE_LIMITS,
  type KnownSecrets,
  KnownValues,
  KnownValuesError,
  SHORTEST_KNOWN_VALUE,
} from './known-values.ts';
export {
  type ByteRedactor,
  createByteRedactor,
  createRedactor,
  type Redactor,
  type RedactorOptions,
} from './redactor.ts';
