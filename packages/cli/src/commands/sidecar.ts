/** `boxkite sidecar`: one sandbox and its API. */
import { ALLOWED_COMMANDS_VARIABLE, allowlistText, parseList } from '../allowed-commands.ts';
import type { Command } from '../command.ts';
import { commonOptions, defineCommand } from '../command.ts';
import { placeOptions } from '../daemon-location.ts';
import type { CommandIo } from '../io.ts';
import type { OptionValues } from '../option-values.ts';
import { mistake } from '../options.ts';
import { limitOptions } from '../sandbox-options.ts';
import { VERSION } from '../version.ts';
import { become, patiently, tlsPair } from './become-service.ts';

const { copy: _copy, ...limits } = limitOptions;

const options = {
  listen: {
    value: 'ADDR:PORT',
    help: 'the TCP address to listen at (127.0.0.1:8080); may be repeated',
    repeatable: true,
  },
  data: { value: 'DIR', help: 'its data directory (/var/lib/boxkite-sidecar, or ~/.local/state/boxkite-sidecar)' },
  rootfs: { value: 'DIR', help: "the sandbox's root file system (the programs of this machine)" },
  'tls-dir': { value: 'DIR', help: 'directory of tls.crt and tls.key (/etc/boxkite/tls)' },
  'tls-cert': { value: 'FILE', help: 'certificate chain in PEM, instead of --tls-dir' },
  'tls-key': { value: 'FILE', help: 'its private key in PEM; Node gets a copy that nobody else can read' },
  ...limits,
  'workspace-mb': { value: 'MB', help: 'room for files (1024)' },
  inodes: { value: 'N', help: 'number of files (262144)' },
  'allowed-commands': {
    value: 'FILE',
    help: `programs that commands of every use may run, in place of ${ALLOWED_COMMANDS_VARIABLE}`,
  },
  help: commonOptions.help,
} as const;

/** Runs `boxkite sidecar`. */
export const sidecarCommand: Command = defineCommand({
  name: 'sidecar',
  about: `Serves one sandbox by the HTTP API that the reference's clients speak. The sandbox is made at the start and is
gone at the end, which is Ctrl-C or SIGTERM.`,
  options,
  examples: [
    ['export SIDECAR_AUTH_TOKEN="$(openssl rand -base64 32)"', 'what every call has to show'],
    ['SIDECAR_TLS_DISABLED=true boxkite sidecar', 'HTTP for programs of this machine'],
    ['boxkite sidecar --listen 0.0.0.0:8080 --tls-dir /srv/tls', 'HTTPS for others'],
  ],
  notes: `Variables: SIDECAR_AUTH_TOKEN_FILE or SIDECAR_AUTH_TOKEN, without which all but GET /health answers 503;
SIDECAR_TLS_DISABLED=true for clear text, without which a key pair is needed; SIDECAR_PORT; and the limits
of docs/guide/sidecar.md. Exit status: as of boxkite serve.`,
  run: async (call) => {
    const { io, options: given } = call;
    const { assertLinux } = await import('@boxkite/local');
    assertLinux();
    const serve = await import('@boxkite/local/serve');
    const context = {
      ...placeOptions(io, given.text('data')),
      version: VERSION,
      environment: await environmentOf(given, io.env),
    };
    const launch = await patiently(call, true, serve.prepareSidecar(sidecarOptions(given), context));
    for (const note of launch.notes) call.say(note);
    return become(launch);
  },
});

/** The variables, and the list of `--allowed-commands` in place of theirs. Errors: `invalid_request`. */
async function environmentOf(given: OptionValues<typeof options>, env: CommandIo['env']): Promise<CommandIo['env']> {
  const file = given.text('allowed-commands');
  if (file === undefined) return env;
  const text = await allowlistText(file);
  await parseList(text, file);
  return { ...env, [ALLOWED_COMMANDS_VARIABLE]: text };
}

function sidecarOptions(given: OptionValues<typeof options>) {
  const tls = tlsPair(given.text('tls-cert'), given.text('tls-key'));
  const tlsDirectory = given.text('tls-dir');
  if (tls !== undefined && tlsDirectory !== undefined) {
    throw mistake('--tls-dir and --tls-cert both name a key pair', 'Leave out one of them.');
  }
  const listen = given.texts('listen');
  return {
    listen: listen.length === 0 ? undefined : listen,
    tls,
    tlsDirectory,
    rootfs: given.text('rootfs'),
    sandbox: {
      memory_mb: given.whole('memory'),
      pids: given.whole('pids'),
      cpus: given.number('cpus'),
      workspace_mb: given.whole('workspace-mb'),
      inodes: given.whole('inodes'),
    },
  };
}
