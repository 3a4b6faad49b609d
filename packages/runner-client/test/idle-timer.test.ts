import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { IdleTimer } from '../src/files-port/idle-timer.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

test('is idle once after the last of several calls, counted from its end', () => {
  const onIdle = vi.fn();
  const timer = new IdleTimer(1000, onIdle);
  const first = timer.use();
  const second = timer.use();
  vi.advanceTimersByTime(5000);
  first();
  vi.advanceTimersByTime(5000);
  expect(onIdle).not.toHaveBeenCalled();
  second();
  vi.advanceTimersByTime(999);
  expect(onIdle).not.toHaveBeenCalled();
  vi.advanceTimersByTime(2);
  expect(onIdle).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(10_000);
  expect(onIdle).toHaveBeenCalledTimes(1);
});

test('is not idle while calls follow each other, or while one runs', () => {
  const onIdle = vi.fn();
  const timer = new IdleTimer(1000, onIdle);
  for (let call = 0; call < 20; call += 1) {
    const end = timer.use();
    vi.advanceTimersByTime(10);
    end();
    vi.advanceTimersByTime(700);
  }
  expect(onIdle).not.toHaveBeenCalled();
  const end = timer.use();
  vi.advanceTimersByTime(5000);
  expect(onIdle).not.toHaveBeenCalled();
  end();
  vi.advanceTimersByTime(2000);
  expect(onIdle).toHaveBeenCalledTimes(1);
});
