/** The demo's two kinds of sandboxes: the product's, and those of the weakened twin. */
import type { SandboxProvider } from '@boxkite/protocol';
import { nativeProgram, startRunner } from '@boxkite/testing';
import { createLocalProvider } from 'boxkite/local';
import type { OffenderProvider, WeakenedLayer } from './offender.ts';

/** Sandboxes as every user of the SDK gets them. */
export function openProduct(): SandboxProvider {
  return createLocalProvider({
    binaries: { runner: nativeProgram('boxkite-runner'), agent: nativeProgram('boxkite-agent') },
  });
}

/** Sandboxes of `runner-weakened`, a second program that leaves these layers out; the product has no such switch. */
export async function openTwin(layers: readonly WeakenedLayer[]): Promise<OffenderProvider> {
  const runner = await startRunner({ weaken: layers });
  return {
    create: async (spec) => await runner.create(spec.pids === undefined ? {} : { pids: spec.pids }),
    close: async () => await runner[Symbol.asyncDispose](),
  };
}
