/** `boxkite stop`: ends the daemon in order. */
import type { Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { dataOption, placeOptions } from '../daemon-location.ts';
import { EXIT } from '../exit-status.ts';
import { countText } from '../text.ts';

const options = {
  ...dataOption,
  timeout: { value: 'SECONDS', help: 'how long to wait for its end (60)' },
  ...commonOptions,
} as const;

const DEFAULT_DEADLINE_MS = 60_000;

/** Runs `boxkite stop`. */
export const stopCommand: Command = defineCommand({
  name: 'stop',
  about: `Ends the daemon of this user and waits until nothing of it is left. Sandboxes with a disk workspace are stopped and
can be started again when the daemon runs again; all others are destroyed. With an ID it stops that sandbox instead.`,
  options,
  examples: [
    ['boxkite stop', 'then `boxkite serve` starts it again'],
    ['boxkite stop build', 'the sandbox with the label `build` alone; `boxkite start build` makes it ready again'],
  ],
  run: async (call) => {
    const serve = await import('@boxkite/local/serve');
    const places = serve.daemonPlaces(placeOptions(call.io, call.options.text('data')));
    const deadline = call.options.timeout('timeout') ?? DEFAULT_DEADLINE_MS;
    const report = await serve.stopDaemon(places, deadline);
    if (call.json) {
      call.printJson(report);
      return EXIT.ok;
    }
    call.say(`the daemon, process ${report.pid}, has ended`);
    if (!report.listed) call.say('it did not say which sandboxes it had; `boxkite ls` will, when it runs again');
    if (report.kept.length > 0) {
      const kept = countText(report.kept.length, 'sandbox is stopped and its', 'sandboxes are stopped and their');
      call.say(`${kept} files are kept: ${report.kept.join(' ')}`);
    }
    if (report.lost.length > 0) {
      const lost = countText(report.lost.length, 'sandbox is', 'sandboxes are');
      call.say(`${lost} gone, with files that were in memory only: ${report.lost.join(' ')}`);
    }
    return EXIT.ok;
  },
});
