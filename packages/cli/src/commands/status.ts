/** `boxkite status`: the daemon of this user. */
import { existsSync } from 'node:fs';
import { BoxkiteError } from '@boxkite/protocol';
import type { Call, Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { dataOption, placeOptions } from '../daemon-location.ts';
import { EXIT } from '../exit-status.ts';
import { durationText, printable, sizeText } from '../text.ts';

const options = { ...dataOption, ...commonOptions } as const;

const MINUTE_MS = 60_000;

type Facts = Readonly<Record<string, unknown>>;

/** Runs `boxkite status`. */
export const statusCommand: Command = defineCommand({
  name: 'status',
  about: 'Says whether a daemon of this user runs, where it listens, and what it has.',
  options,
  examples: [['boxkite status --json', 'the same for a program']],
  notes: 'Exit status: 0 when it runs and answers, 1 when it does not.',
  run: async (call) => {
    const serve = await import('@boxkite/local/serve');
    const places = serve.daemonPlaces(placeOptions(call.io, call.options.text('data')));
    const status = await serve.daemonStatus(places);
    if (status === null) {
      throw new BoxkiteError('daemon_unreachable', `no daemon runs with the data directory ${places.data}`, {
        hint: `Start it by \`boxkite serve --detach${places.usual ? '' : ` --data ${places.data}`}\`.`,
      });
    }
    const { pid, record, answer } = status;
    const facts = {
      pid,
      answers: answer !== null,
      ...record,
      socket: places.socket,
      key: places.key,
      data: places.data,
      data_removed: !existsSync(places.state),
      server: answer,
    };
    if (call.json) call.printJson(facts);
    else show(call, facts);
    return answer === null ? EXIT.fault : EXIT.ok;
  },
});

function show(call: Call<typeof options>, facts: Facts & { readonly server: Facts | null }): void {
  const server = facts.server ?? {};
  const started = Date.parse(String(server['started_at'] ?? facts['started_at']));
  const uptime = Number.isNaN(started) ? '' : ` for ${durationText(Date.now() - started)}`;
  const rows: (readonly [string, string])[] = [
    ['daemon', `${facts['answers'] === true ? `runs${uptime}` : 'runs, but does not answer'}, process ${facts['pid']}`],
    ['version', text(server['version'] ?? facts['version'])],
    ['socket', text(facts['socket'])],
    ['key', text(facts['key'])],
    ['tcp', list(facts['listen'], facts['tls'] === true ? ' with TLS' : ' without TLS')],
    ['data', `${text(facts['data'])}${facts['data_removed'] === true ? ', which was removed: stop the daemon' : ''}`],
    ['log', text(facts['log'] ?? 'standard error of the daemon')],
    ['roots', list(facts['roots'], '')],
    ['sandboxes', counts(server['sandboxes'])],
    ['execs', text(server['execs'])],
    ['memory', typeof server['memory_bytes'] === 'number' ? `${sizeText(server['memory_bytes'])}, of its Node` : '-'],
    ['isolation', isolation(server['runner'])],
    ['limits', limits(server['limits'])],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  for (const [name, value] of rows) call.print(`${call.paint('heading', name.padEnd(width))}  ${printable(value)}`);
}

function text(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '-';
}

function list(value: unknown, suffix: string): string {
  return Array.isArray(value) && value.length > 0 ? `${value.join(', ')}${suffix}` : 'none';
}

/** How sandboxes get their ids, and which layers the machine lacks. */
function isolation(value: unknown): string {
  if (!isFacts(value) || !isFacts(value['layers'])) return '-';
  const lacking = Object.entries(value['layers']).flatMap(([name, works]) => (works === true ? [] : name));
  const mode = text(value['mode']).replaceAll('_', ' ');
  return lacking.length === 0 ? `${mode}; all layers work` : `${mode}; without ${lacking.join(', ')}`;
}

function limits(value: unknown): string {
  if (!isFacts(value)) return '-';
  const lifetime = (name: string): string => {
    const minutes = value[name];
    return typeof minutes === 'number' ? durationText(minutes * MINUTE_MS) : '-';
  };
  const lives = `which live ${lifetime('default_lifetime_minutes')}, at most ${lifetime('max_lifetime_minutes')}`;
  return `${text(value['sandboxes'])} sandboxes, ${lives}`;
}

function isFacts(value: unknown): value is Facts {
  return typeof value === 'object' && value !== null;
}

/** `3 ready, 1 stopped`, of what has a number. */
function counts(value: unknown): string {
  if (typeof value !== 'object' || value === null) return '-';
  const found = Object.entries(value).filter(([, count]) => typeof count === 'number' && count > 0);
  return found.length === 0 ? 'none' : found.map(([name, count]) => `${count} ${name.replaceAll('_', ' ')}`).join(', ');
}
