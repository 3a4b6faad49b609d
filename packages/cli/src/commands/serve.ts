/** `boxkite serve`: the daemon. */
import { ALLOWED_COMMANDS_VARIABLE, allowlistText, deploymentText } from '../allowed-commands.ts';
import type { Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { dataOption, placeOptions } from '../daemon-location.ts';
import { EXIT } from '../exit-status.ts';
import type { CommandIo } from '../io.ts';
import type { OptionValues } from '../option-values.ts';
import { mistake } from '../options.ts';
import { VERSION } from '../version.ts';
import { become, patiently, tlsPair } from './become-service.ts';

const options = {
  ...dataOption,
  listen: { value: 'ADDR:PORT', help: 'listen at this TCP address too (port 8090); may be repeated', repeatable: true },
  'tls-cert': { value: 'FILE', help: 'certificate chain for TCP, in PEM; needed beyond this machine' },
  'tls-key': { value: 'FILE', help: 'its private key, in PEM; Node gets a copy that nobody else can read' },
  rootfs: {
    value: 'NAME=DIR',
    help: 'a root file system that sandboxes may ask for; may be repeated',
    repeatable: true,
  },
  'max-sandboxes': { value: 'N', help: 'sandboxes at once (2000)' },
  blanks: { value: 'N', help: 'sandboxes to make ahead (4)' },
  'idle-seconds': { value: 'N', help: 'end what is idle of a sandbox after this time (60)' },
  'max-memory-mb': { value: 'N', help: 'memory of a command that a sandbox may ask for (all of the machine)' },
  'max-cpus': { value: 'N', help: 'cores of a sandbox (all of the machine)' },
  'max-pids': { value: 'N', help: 'processes of a command' },
  'max-workspace-mb': { value: 'N', help: 'size of a workspace' },
  'max-inodes': { value: 'N', help: 'files of a workspace' },
  'allowed-commands': {
    value: 'FILE',
    help: `programs that commands of all sandboxes may run, in place of ${ALLOWED_COMMANDS_VARIABLE}`,
  },
  detach: { value: null, help: 'return when the daemon serves; it goes on in the background and logs to a file' },
  help: commonOptions.help,
} as const;

/** Runs `boxkite serve`. */
export const serveCommand: Command = defineCommand({
  name: 'serve',
  about: `Serves sandboxes that stay, to every program of this user: the command line and the SDK find it by themselves.
In the foreground it logs to standard error and ends in order at Ctrl-C or SIGTERM.`,
  options,
  examples: [
    ['boxkite serve', 'until Ctrl-C'],
    ['boxkite serve --detach', 'in the background; `boxkite stop` ends it'],
    ['boxkite serve --listen 127.0.0.1:8090', 'HTTP for other programs of this machine'],
    ['boxkite serve --rootfs debian=/srv/debian', 'then boxkite create --rootfs debian'],
  ],
  notes: `Exit status: 0 when it was stopped, 78 when its configuration or data can't be used, 2 when it can't be started as
asked for, 1 at a fault.`,
  run: async (call) => {
    const { io, options: given } = call;
    const { assertLinux } = await import('@boxkite/local');
    assertLinux();
    const serve = await import('@boxkite/local/serve');
    const wanted = {
      ...serveOptions(given),
      allowedCommands: await allowedCommandsOf(given.text('allowed-commands'), io),
    };
    const places = placeOptions(io, given.text('data'));
    if (!given.has('detach')) {
      const log = io.env[LOG_VARIABLE];
      const prepared = serve.prepareServe(wanted, { ...places, version: VERSION, log });
      return become(await patiently(call, log === undefined, prepared));
    }
    const found = serve.daemonPlaces(places);
    await serve.checkServe(wanted, found);
    serve.ensureDataDirectory(found, places.uid);
    const again = withoutDetach(process.argv.slice(1));
    const command = [process.execPath, ...process.execArgv, ...again] as const;
    const starting = serve.startDetached(found, command, { ...io.env, [LOG_VARIABLE]: found.log });
    const pid = await patiently(call, true, starting);
    call.say(`the daemon serves as process ${pid} and logs to ${found.log}`);
    const url = found.usual ? '' : `BOXKITE_URL=unix://${found.socket} `;
    call.say(`its socket is ${found.socket}, its key in ${found.key}; try: ${url}boxkite create`);
    return EXIT.ok;
  },
});

/** Tells the process that becomes the daemon where its standard error goes. */
const LOG_VARIABLE = 'BOXKITE_DAEMON_LOG';

function withoutDetach(args: readonly string[]): readonly string[] {
  return args.filter((arg) => arg !== '--detach');
}

function serveOptions(given: OptionValues<typeof options>) {
  return {
    listen: given.texts('listen'),
    tls: tlsPair(given.text('tls-cert'), given.text('tls-key')),
    roots: given.texts('rootfs').map(namedRoot),
    maxSandboxes: given.whole('max-sandboxes'),
    blanks: given.whole('blanks'),
    idleSeconds: given.whole('idle-seconds'),
    ceilings: {
      memory_mb: given.whole('max-memory-mb'),
      cpus: given.number('max-cpus'),
      pids: given.whole('max-pids'),
      workspace_mb: given.whole('max-workspace-mb'),
      inodes: given.whole('max-inodes'),
    },
  };
}

async function allowedCommandsOf(file: string | undefined, io: CommandIo) {
  if (file !== undefined) return { text: await allowlistText(file), name: file };
  const text = deploymentText(io);
  return text === undefined ? undefined : { text, name: ALLOWED_COMMANDS_VARIABLE };
}

function namedRoot(pair: string): { readonly name: string; readonly directory: string } {
  const equals = pair.indexOf('=');
  if (equals > 0 && equals < pair.length - 1) return { name: pair.slice(0, equals), directory: pair.slice(equals + 1) };
  throw mistake(`--rootfs ${pair} is not NAME=DIR`, 'Write for example --rootfs debian=/srv/debian.');
}
