/** Hands events on to every watcher, each with a queue of its own. */
export class EventHub<T> {
  readonly #watchers = new Set<(event: T) => void>();

  emit(event: T): void {
    for (const watcher of this.#watchers) watcher(event);
  }

  /** The events from this call on, until the signal aborts. Watching starts now, not at the first `next`. */
  watch(signal: AbortSignal): AsyncIterable<T> {
    const queue: T[] = [];
    let wake: (() => void) | null = null;
    const notify = (): void => {
      wake?.();
      wake = null;
    };
    const watcher = (event: T): void => {
      queue.push(event);
      notify();
    };
    const stop = (): void => {
      this.#watchers.delete(watcher);
      notify();
    };
    if (!signal.aborted) {
      this.#watchers.add(watcher);
      signal.addEventListener('abort', stop, { once: true });
    }
    async function* events(): AsyncGenerator<T, void, undefined> {
      try {
        while (true) {
          const event = queue.shift();
          if (event !== undefined) yield event;
          else if (signal.aborted) return;
          else {
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
          }
        }
      } finally {
        signal.removeEventListener('abort', stop);
        stop();
      }
    }
    return events();
  }
}
