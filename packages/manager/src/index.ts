/** The port between everything that manages sandboxes and the places where they run. */
export type {
  Binding,
  Endpoint,
  ObservedSandbox,
  SandboxHandle,
  Shape,
  Substrate,
  SubstrateEvent,
} from './substrate.ts';
