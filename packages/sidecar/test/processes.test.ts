import { setImmediate as turn } from 'node:timers/promises';
import { BoxkiteError } from '@boxkite/protocol';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { SessionExecs } from '../src/session/session-execs.ts';
import { Host } from './support/sessions.ts';

const SPEC = { command: 'true', description: null, maxRuntimeSeconds: 60 };

afterEach(() => {
  vi.restoreAllMocks();
});

describe('background processes', () => {
  it('start where the disk does not let go of old ones', async () => {
    await using host = await Host.start({ '-c': [] });
    const { processes } = host.session.services;
    const forget = vi.spyOn(SessionExecs.prototype, 'forget').mockRejectedValue(new RangeError('the disk is full'));
    for (let started = 0; started < 102; started += 1) {
      await processes.start(SPEC);
      await expect.poll(() => processes.list().at(-1)?.status).toBe('exited');
    }
    expect(forget).toHaveBeenCalled();
  });

  it('are not said to be stopped where the signal did not reach them', async () => {
    await using host = await Host.start({ '-c': [] }, ['-c']);
    const { processes } = host.session.services;
    const failures = [
      new BoxkiteError('exec_ended', 'it has ended'),
      new BoxkiteError('runner_lost', 'the runner is gone'),
    ];
    for (const failure of failures) {
      const { process_id } = await processes.start(SPEC);
      const [last = 0n] = [...host.runner.execs.keys()].slice(-1);
      vi.spyOn(SessionExecs.prototype, 'signal').mockImplementation(() => {
        host.runner.finish(last);
        return Promise.reject(failure);
      });
      await processes.stop(process_id).catch((error: unknown) => expect(error).toBe(failure));
      await expect.poll(() => processes.get(process_id).status).toBe('exited');
    }
  });

  it('are no fault of the process that stops while it signals one', async () => {
    await using host = await Host.start({ '-c': [] }, ['-c']);
    const { processes } = host.session.services;
    const { process_id } = await processes.start(SPEC);
    const signalled = Promise.withResolvers<void>();
    const signal = vi.spyOn(SessionExecs.prototype, 'signal').mockReturnValue(signalled.promise);
    const unheard: unknown[] = [];
    const hear = (error: unknown): void => void unheard.push(error);
    process.on('unhandledRejection', hear);
    const stopped = processes.stop(process_id).catch((error: unknown) => error);
    await expect.poll(() => signal.mock.calls.length).toBe(1);
    await host.session.close();
    await turn();
    signalled.resolve();
    expect(await stopped).toMatchObject({ code: 'state_unavailable' });
    expect(unheard).toEqual([]);
    process.off('unhandledRejection', hear);
  });
});
