/** The contract suite over everything on this machine that makes sandboxes. */
import { createLocalProvider } from '@boxkite/local';
import { lane, startDaemon, type TestDaemon } from '@boxkite/testing';
import { describeContract } from '@boxkite/testing/contract';
import { serverProvider } from 'boxkite';
import { afterAll, describe } from 'vitest';

const memory = lane === 'root';

describe(`contract, ${lane}`, () => {
  describeContract({ name: 'private runners', open: async () => createLocalProvider(), memory, disk: false }, false);

  describe('through a daemon', () => {
    let daemon: TestDaemon | undefined;
    afterAll(async () => {
      await daemon?.[Symbol.asyncDispose]();
    });
    const open = async () => {
      daemon = await startDaemon();
      return serverProvider({ url: daemon.url, apiKey: daemon.key() });
    };
    describeContract({ name: 'the daemon', open, memory, disk: memory }, true);
  });
});
