/** One run of a virtual machine without KVM: the guest powers off by itself, or is ended at the deadline. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { z } from 'zod';

const PROGRAM = 'qemu-system-x86_64';

/** The files of a machine, and what it gets of this one. */
export interface Machine {
  readonly kernel: string;
  readonly initrd: string;
  /** Disks in the order of their names, `vda` first: raw images, written to. */
  readonly disks: readonly string[];
  /** Where the kernel's console goes. */
  readonly console: string;
  readonly processors: number;
  readonly memoryMegabytes: number;
}

/** How a machine ended: with which status of the emulator, or at its deadline. */
export interface Ended {
  readonly status: number | null;
  readonly late: boolean;
  /** What the emulator had to say. */
  readonly complaints: string;
}

/** Plain: with protection keys and wide vectors the emulator's processor is slower, and its programs crash at times. */
const PROCESSOR = 'Nehalem';

const KERNEL_OPTIONS = [
  'console=ttyS0',
  'loglevel=5',
  'panic=-1',
  // What an emulator runs has no processor whose faults would be worth their mitigation.
  'mitigations=off',
  'nokaslr',
  // How fast the time stamps of a busy host run is found out wrong at boot, and the guest's seconds are then too short.
  'tsc=unstable',
  'clocksource=hpet',
  'no_timer_check',
];

const closed = z.tuple([z.int().nullable()]).rest(z.unknown());

function commandLine(machine: Machine): string[] {
  const disks = machine.disks.flatMap((file, index) => [
    '-drive',
    `if=none,id=disk${index},format=raw,cache=unsafe,file=${file.replaceAll(',', ',,')}`,
    '-device',
    `virtio-blk-pci,drive=disk${index}`,
  ]);
  return [
    ...['-nodefaults', '-no-user-config', '-no-reboot', '-display', 'none', '-machine', 'pc'],
    ...['-accel', 'tcg,thread=multi,tb-size=512', '-cpu', PROCESSOR],
    ...['-smp', String(machine.processors), '-m', String(machine.memoryMegabytes)],
    ...['-kernel', machine.kernel, '-initrd', machine.initrd, '-append', KERNEL_OPTIONS.join(' ')],
    ...disks,
    ...['-serial', `file:${machine.console}`, '-serial', 'stdio'],
  ];
}

/**
 * Runs the machine to its end, at most `seconds`. `output` gets what the guest says on its second serial port. An abort
 * ends it, as does the deadline.
 */
export async function runMachine(
  machine: Machine,
  seconds: number,
  output: (text: string) => void,
  signal: AbortSignal,
): Promise<Ended> {
  // It must not outlive this process, however that ends.
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', PROGRAM, ...commandLine(machine)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const end = (): void => {
    child.kill('SIGKILL');
  };
  signal.addEventListener('abort', end);
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    end();
  }, seconds * 1000);
  let complaints = '';
  child.stdout.setEncoding('utf8').on('data', output);
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text;
  });
  try {
    if (signal.aborted) end();
    const [status] = closed.parse(await once(child, 'close'));
    return { status, late, complaints };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
  }
}
