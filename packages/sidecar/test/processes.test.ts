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
});
