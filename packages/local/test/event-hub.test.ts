import { expect, test } from 'vitest';
import { EventHub } from '../src/event-hub.ts';

test('every watcher gets what comes after it began, in order, until its signal aborts', async () => {
  const hub = new EventHub<number>();
  hub.emit(0);
  const stop = new AbortController();
  const seen: number[] = [];
  const watching = (async () => {
    for await (const event of hub.watch(stop.signal)) seen.push(event);
  })();
  hub.emit(1);
  await Promise.resolve();
  hub.emit(2);
  hub.emit(3);
  stop.abort();
  hub.emit(4);
  await watching;
  expect(seen).toEqual([1, 2, 3]);
});

test('a watcher that leaves early gets nothing more', async () => {
  const hub = new EventHub<string>();
  const stop = new AbortController();
  const events = hub.watch(stop.signal);
  hub.emit('first');
  for await (const event of events) {
    expect(event).toBe('first');
    break;
  }
  hub.emit('second');
  stop.abort();
  const rest: string[] = [];
  for await (const event of events) rest.push(event);
  expect(rest).toEqual([]);
});
