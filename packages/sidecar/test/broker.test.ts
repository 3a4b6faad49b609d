import { describe, expect, it } from 'vitest';
import { SecretsBroker } from '../src/session/broker.ts';
import { blankConfiguration, type Configured } from '../src/session/configuration.ts';

const granted: Configured = {
  ...blankConfiguration,
  generation: 1,
  digest: '',
  session_id: 's',
  secret_names: ['A', 'B'],
  secret_capability_token: 'token',
  secrets_control_plane_url: 'https://plane.example/base/',
};

/** A broker with a clock and a network of the test. */
class Plane {
  configured: Configured | null = granted;
  time = 0;
  readonly asked: { readonly url: string; readonly init: RequestInit }[] = [];
  answer: (name: string) => Promise<Response> = (name) => Promise.resolve(Response.json({ value: `value of ${name}` }));
  readonly broker = new SecretsBroker(
    { configured: () => this.configured },
    {
      now: () => this.time,
      fetch: (url, init = {}) => {
        if (typeof url !== 'string' || typeof init.body !== 'string') throw new TypeError('not as the broker asks');
        this.asked.push({ url, init });
        return this.answer((JSON.parse(init.body) as { secret_name: string }).secret_name);
      },
    },
  );

  async value(secret = 'A'): Promise<string | undefined> {
    return (await this.broker.resolve({ V: secret })).values['V'];
  }
}

describe('the broker', () => {
  it('asks with the token of the session, follows nothing, and has a deadline', async () => {
    const plane = new Plane();
    expect(await plane.broker.resolve({ ONE: 'A', TWO: 'A', __proto__x: 'B' })).toEqual({
      values: { ONE: 'value of A', TWO: 'value of A', __proto__x: 'value of B' },
      labels: { ONE: 'A', TWO: 'A', __proto__x: 'B' },
      omitted: [],
    });
    expect(plane.asked).toHaveLength(2);
    const [{ url, init }] = plane.asked as [(typeof plane.asked)[0]];
    expect(url).toBe('https://plane.example/base/internal/secrets/resolve');
    expect(init).toMatchObject({ method: 'POST', redirect: 'manual', headers: { authorization: 'Bearer token' } });
    expect(init.signal).toBeInstanceOf(AbortSignal);
  });

  it('asks again when a value is five minutes old, and after a failure', async () => {
    const plane = new Plane();
    await plane.value();
    plane.time = 299_999;
    await plane.value();
    expect(plane.asked).toHaveLength(1);
    plane.time = 300_000;
    plane.answer = () => Promise.reject(new Error('network'));
    expect(await plane.value()).toBeUndefined();
    expect(await plane.value()).toBeUndefined();
    expect(plane.asked).toHaveLength(3);
  });

  it('asks once for all who wait', async () => {
    const plane = new Plane();
    const gate = Promise.withResolvers<Response>();
    plane.answer = () => gate.promise;
    const all = Array.from({ length: 20 }, () => plane.value());
    gate.resolve(Response.json({ value: 'shared' }));
    expect(new Set(await Promise.all(all))).toEqual(new Set(['shared']));
    expect(plane.asked).toHaveLength(1);
  });

  it('forgets all values when a use ends, and takes none that comes after it', async () => {
    const plane = new Plane();
    const late = Promise.withResolvers<Response>();
    plane.answer = () => late.promise;
    const waiting = plane.value();
    plane.broker.reset();
    plane.answer = () => Promise.resolve(Response.json({ value: 'of the next use' }));
    const next = plane.value();
    late.resolve(Response.json({ value: 'of the last use' }));
    expect([await waiting, await next, await plane.value()]).toEqual([undefined, 'of the next use', 'of the next use']);
    expect(plane.asked[0]?.init.signal?.aborted).toBe(true);
    plane.broker.reset();
    await plane.value();
    expect(plane.asked).toHaveLength(3);
  });

  it('asks for nothing that is not granted, or by a name that no variable may have', async () => {
    const plane = new Plane();
    const wanted = JSON.parse('{"A":"C","PATH":"A","x=y":"A","__proto__":"A","constructor":"toString"}') as Record<
      string,
      string
    >;
    const { values, omitted } = await plane.broker.resolve(wanted);
    expect(Object.entries(values)).toEqual([['__proto__', 'value of A']]);
    expect(omitted).toEqual([
      { name: 'A', reason: 'not_granted' },
      { name: 'PATH', reason: 'name_refused' },
      { name: 'x=y', reason: 'name_refused' },
      { name: 'constructor', reason: 'not_granted' },
    ]);
    const many = Object.fromEntries(Array.from({ length: 201 }, (_, index) => [`V${index}`, 'A']));
    await expect(plane.broker.resolve(many)).rejects.toMatchObject({ code: 'invalid_request' });
    plane.configured = null;
    expect((await plane.broker.resolve({ A: 'A' })).omitted).toEqual([{ name: 'A', reason: 'not_granted' }]);
    plane.configured = { ...granted, secret_capability_token: null };
    expect((await plane.broker.resolve({ A: 'B' })).omitted).toEqual([{ name: 'A', reason: 'unresolved' }]);
    expect(plane.asked).toHaveLength(1);
  });
});
