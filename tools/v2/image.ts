/** Everything that the guest boots from, in one directory that goes when the run is over. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { filesOf } from './debian-files.ts';
import { packInitrd } from './initrd.ts';
import { type Kernel, prepareKernel } from './kernel.ts';
import { modulesInOrder } from './modules.ts';

const BUSYBOX = '/bin/busybox';

/** What the guest's scripts, the tests and the programs in their sandboxes call. All are on any Debian but the last line. */
const PACKAGES = [
  ...['bash', 'coreutils', 'dash', 'diffutils', 'findutils', 'grep', 'gzip', 'mawk', 'sed', 'tar'],
  ...['base-files', 'base-passwd', 'e2fsprogs', 'hostname', 'libc-bin', 'login', 'mount', 'passwd', 'util-linux'],
  ...['gcc', 'libc6-dev', 'libatomic1', 'libstdc++6', 'procps', 'python3'],
];

/** Drivers of the disks; quota, loop files; a network interface that is not loopback. */
const MODULES = ['virtio_pci', 'virtio_blk', 'quota_v2', 'loop', 'dummy'];

/** Sparse: what is not written takes nothing. */
const DATA_SIZE = '6G';
const RESULTS_BYTES = 64 << 20;

/** What the guest is told to do. */
export interface Orders {
  /** Test files per lane. */
  readonly lanes: Readonly<Record<string, readonly string[]>>;
  /** Test programs in Rust. */
  readonly programs: readonly string[];
  /** The bundle from which root's daemons are started. */
  readonly bundle: string;
  readonly slowness: number;
  /** Seconds for one lane. */
  readonly laneSeconds: number;
  readonly ci: string | undefined;
}

/** The files of one run. */
export interface Images {
  readonly kernel: Kernel;
  readonly initrd: string;
  readonly root: string;
  readonly data: string;
  /** Gets an archive of results, from its first byte. */
  readonly results: string;
}

/** An ordinary user's files belong to root inside. */
function asRoot(program: string, args: readonly string[]): void {
  const [first = program, ...rest] =
    process.getuid?.() === 0 ? [program, ...args] : ['unshare', '--map-root-user', '--', program, ...args];
  execFileSync(first, rest, { stdio: ['ignore', 'inherit', 'inherit'] });
}

function writeOrders(place: string, orders: Orders): void {
  mkdirSync(join(place, 'programs'), { recursive: true });
  const settings = [`slowness=${orders.slowness}`, `limit=${orders.laneSeconds}`];
  if (orders.ci !== undefined) settings.push(`ci=${JSON.stringify(orders.ci)}`);
  writeFileSync(join(place, 'settings'), `${settings.join('\n')}\n`);
  for (const [lane, files] of Object.entries(orders.lanes)) {
    writeFileSync(join(place, `${lane}.files`), files.map((file) => `${file}\n`).join(''));
  }
  execFileSync('cp', [...orders.programs, BUSYBOX, join(place, 'programs')]);
  cpSync(orders.bundle, join(place, 'bundle'), { recursive: true });
}

/** Makes the images in `work`; the kernel comes from `cache`, where it stays. */
export function makeImages(work: string, cache: string, orders: Orders): Images {
  const at = (name: string): string => join(work, name);
  const here = (name: string): string => join(import.meta.dirname, name);
  const kernel = prepareKernel(cache);
  const modules = modulesInOrder(kernel.modules, MODULES);
  writeFileSync(at('initrd'), packInitrd(readFileSync(BUSYBOX), readFileSync(here('guest/boot')), modules));
  writeOrders(at('orders'), orders);
  writeFileSync(at('list'), `${filesOf(PACKAGES).join('\n')}\n`);
  mkdirSync(at('stage'));
  asRoot(here('pack'), [at('stage'), at('list'), at('orders'), at('root.img')]);
  execFileSync('rm', ['-rf', '--one-file-system', at('stage')]);
  const quota = ['-O', 'quota,project', '-E', 'quotatype=prjquota'];
  execFileSync('/usr/sbin/mke2fs', ['-q', '-t', 'ext4', ...quota, at('data.img'), DATA_SIZE]);
  writeFileSync(at('results.img'), '');
  truncateSync(at('results.img'), RESULTS_BYTES);
  return { kernel, initrd: at('initrd'), root: at('root.img'), data: at('data.img'), results: at('results.img') };
}
