export type { Clock } from './clock.ts';
export { systemClock } from './clock.ts';
export type { ManagerLimits } from './manager-types.ts';
export type { Access } from './records.ts';
export { SandboxManager } from './sandbox-manager.ts';
export type {
  AccountHistory,
  FinishedQuery,
  NewSandboxRow,
  SandboxRow,
  SessionStore,
} from './store.ts';
export type {
  Binding,
  Endpoint,
  ObservedSandbox,
  SandboxHandle,
  Shape,
  Substrate,
  SubstrateEvent,
  SubstrateSpec,
} from './substrate.ts';
