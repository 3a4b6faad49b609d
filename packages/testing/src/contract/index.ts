/**
 * One suite for everything that makes sandboxes: private runners, the daemon, and later the pods of a cluster. It knows
 * the port alone.
 */
import type { SandboxProvider } from '@boxkite/protocol';
import { afterAll, beforeAll, describe } from 'vitest';
import { execContract } from './exec.ts';
import { filesContract } from './files.ts';
import { lastingContract } from './lasting.ts';
import { lifeContract } from './life.ts';
import type { ContractSubject } from './subject.ts';

export type { Collected, ContractSubject } from './subject.ts';
export { bytesOf, itemsOf, readAll, runIn, shIn } from './subject.ts';

/** Declares the suite for one implementation. `lasting`: its sandboxes outlive their creator. */
export function describeContract(subject: ContractSubject, lasting: boolean): void {
  describe(subject.name, () => {
    let provider: SandboxProvider;
    beforeAll(async () => {
      provider = await subject.open();
    });
    afterAll(async () => {
      await provider.close();
    });
    const get = (): SandboxProvider => provider;
    lifeContract(get);
    execContract(get, subject);
    filesContract(get);
    if (lasting) lastingContract(get, subject);
  });
}
