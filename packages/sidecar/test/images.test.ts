/** Images by a helper process: what is made of good ones, and what bad ones can't do. */
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RunnerFiles } from '@boxkite/runner-client';
import { makeBomb, makePng, nativeProgram, pngChunk, pngHeader, sleep, unlessGone } from '@boxkite/testing';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { ImageHelper, imageLimits } from '../src/images/image-helper.ts';
import type { ImageJob } from '../src/images/job.ts';
import { probeImage } from '../src/images/probe.ts';
import { readImage } from '../src/images/read-image.ts';
import { makeJpeg, makeWebp } from './support/encoders.ts';

const JOB: ImageJob = { codec: 'png', maxDimension: 2048, jpegQuality: 85, webpQuality: 80, pngCompression: 6 };
const STAYS = new AbortController().signal;
const MIB = 1024 * 1024;
const LONG = { timeout: 60_000 };

const helpers: ImageHelper[] = [];
function helper(limits: Partial<typeof imageLimits> = {}): ImageHelper {
  const made = new ImageHelper(nativeProgram('boxkite-runner'), { ...imageLimits, ...limits });
  helpers.push(made);
  return made;
}
afterAll(() => {
  for (const made of helpers) made.close();
});

const node = realpathSync(process.execPath);
const small = makePng(64, 64);
const sizeOf = (bytes: Buffer | null) => (bytes === null ? null : probeImage(bytes)?.size);

/** The first process that runs, once it is confined. */
async function child(of: ImageHelper): Promise<number> {
  for (;;) {
    const [pid] = of.running;
    if (pid !== undefined && readProc(pid, 'cmdline')?.startsWith(node) === true) return pid;
    await sleep(5);
  }
}

/** The most memory that is seen of a process until it is gone, in bytes. */
async function peakOf(pid: number): Promise<number> {
  let peak = 0;
  for (;;) {
    const pages = readProc(pid, 'statm');
    if (pages === null) return peak;
    peak = Math.max(peak, 4096 * Number(pages.split(' ')[1]));
    await sleep(2);
  }
}

/** `null` where it has gone. */
function readProc(pid: number, name: string): string | null {
  return unlessGone(() => readFileSync(`/proc/${pid}/${name}`, 'latin1'), null);
}

describe('a header', () => {
  const gif = Buffer.from('GIF89a\x01\0\x01\0', 'latin1');
  it.each([
    ['png', small, { width: 64, height: 64 }, false],
    ['gif', gif, null, false],
    ['bmp', Buffer.concat([Buffer.from('BM'), Buffer.alloc(60)]), null, false],
    ['tiff', Buffer.from('II*\0\x08\0\0\0', 'latin1'), null, false],
    ['avif', Buffer.from('\0\0\0\x1cftypavif\0\0\0\0', 'latin1'), null, false],
    ['svg', Buffer.from('<?xml version="1.0"?>\n<!-- <svg> -->\n<svg xmlns="x"/>'), null, false],
  ] as const)('of %s', (kind, bytes, size, isAnimated) => {
    expect(probeImage(Buffer.from(bytes))).toMatchObject({ kind, size, isAnimated });
  });

  it('of what codecs make, and of animations', async () => {
    expect(probeImage(await makeJpeg(33, 21))).toMatchObject({ kind: 'jpeg', size: { width: 33, height: 21 } });
    expect(probeImage(await makeWebp(33, 21))).toMatchObject({ kind: 'webp', size: { width: 33, height: 21 } });
    const apng = Buffer.concat([pngHeader(9, 8), pngChunk('acTL', Buffer.alloc(8)), pngChunk('IDAT', Buffer.alloc(1))]);
    expect(probeImage(apng)).toMatchObject({ size: { width: 9, height: 8 }, isAnimated: true });
    const moving = Buffer.from('RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\x07\0\0\x05\0\0', 'latin1');
    expect(probeImage(moving)).toMatchObject({ kind: 'webp', size: { width: 8, height: 6 }, isAnimated: true });
  });

  it.each([
    'x',
    '',
    'BM',
    '\x89PNG',
    '<html><svg/></html>',
    '<!-- <svg>',
    '#!/bin/sh\n<svg>',
    '\0\0\0\x1cftypisom',
    '%PDF-1.7',
  ])('of %j is none', (text) => {
    expect(probeImage(Buffer.from(text, 'latin1'))).toBeNull();
  });

  it('that is cut anywhere is read without a fault', async () => {
    for (const whole of [small.subarray(0, 80), await makeJpeg(8, 8), await makeWebp(8, 8)]) {
      for (let length = 0; length < whole.length; length += 1) probeImage(whole.subarray(0, length));
    }
  });
});

describe('the helper', () => {
  it('scales and packs', LONG, async () => {
    const images = helper();
    const png = await images.optimise(JOB, makePng(3000, 1500), STAYS);
    expect(sizeOf(png)).toEqual({ width: 2048, height: 1024 });
    expect((await images.optimise(JOB, small, STAYS))?.length).toBeLessThan(small.length);
    const jpeg = await makeJpeg(900, 300);
    const scaled = await images.optimise({ ...JOB, codec: 'jpeg', maxDimension: 300 }, jpeg, STAYS);
    expect([sizeOf(scaled), scaled && probeImage(scaled)?.kind]).toEqual([{ width: 300, height: 100 }, 'jpeg']);
    const worse = await images.optimise({ ...JOB, codec: 'jpeg', jpegQuality: 30 }, jpeg, STAYS);
    expect(worse?.length).toBeLessThan((await images.optimise({ ...JOB, codec: 'jpeg' }, jpeg, STAYS))?.length ?? 0);
    const webp = await images.optimise({ ...JOB, codec: 'webp', maxDimension: 256 }, await makeWebp(512, 100), STAYS);
    expect([sizeOf(webp), webp && probeImage(webp)?.kind]).toEqual([{ width: 256, height: 50 }, 'webp']);
  });

  it('leaves what gains nothing as it is, and packs at the level that is set', LONG, async () => {
    const images = helper();
    const best = await images.optimise({ ...JOB, pngCompression: 9 }, small, STAYS);
    expect(best).not.toBeNull();
    expect(await images.optimise({ ...JOB, pngCompression: 9 }, best ?? small, STAYS)).toBeNull();
    const scaled = (pngCompression: number) =>
      images.optimise({ ...JOB, maxDimension: 256, pngCompression }, makePng(512, 512), STAYS);
    expect((await scaled(0))?.length).toBeGreaterThan(256 * 256 * 3);
    expect((await scaled(9))?.length).toBeLessThan(256 * 256 * 3);
  });

  it('lets nothing transparent colour what is beside it', LONG, async () => {
    const half = makePng(512, 8, (x) => (x < 256 ? [0, 0, 255, 255] : [255, 0, 0, 0]));
    const scaled = await helper().optimise({ ...JOB, maxDimension: 256, pngCompression: 0 }, half, STAYS);
    // Packed at level 0 the blue half is there as it is; a red that shines through would not be.
    const { default: decode, init } = await import('@jsquash/png/decode.js');
    const path = new URL(import.meta.resolve('@jsquash/png/codec/pkg/squoosh_png_bg.wasm'));
    await init(readFileSync(path));
    const { data } = await decode(Uint8Array.from(scaled ?? []).buffer);
    let reddest = 0;
    for (let at = 0; at < data.length; at += 4) if ((data[at + 3] ?? 0) > 0) reddest = Math.max(reddest, data[at] ?? 0);
    expect(reddest).toBeLessThan(8);
  });

  it.each([
    ['cut', makePng(200, 200).subarray(0, 900)],
    ['no data', pngHeader(10, 10)],
    ['data of something else', Buffer.concat([pngHeader(64, 64), pngChunk('IDAT', Buffer.from('not packed'))])],
    ['another kind', Buffer.from('\xff\xd8\xff\xe0 not a png', 'latin1')],
    ['nothing', Buffer.alloc(0)],
    ['a size of nought', Buffer.concat([pngHeader(0, 0), pngChunk('IEND', Buffer.alloc(0))])],
  ])('makes nothing of %s, and goes on', LONG, async (_what, bytes) => {
    const images = helper();
    for (const codec of ['png', 'jpeg', 'webp'] as const) {
      expect(await images.optimise({ ...JOB, codec }, bytes, STAYS)).toBeNull();
    }
    expect(await images.optimise(JOB, small, STAYS)).not.toBeNull();
    expect(images.running).toEqual([]);
  });

  it('ends what takes more memory than it may', LONG, async () => {
    const most = 300 * MIB;
    const bomb = makeBomb(12_000, 12_000);
    expect(bomb.length).toBeLessThan(MIB);
    const peaks: number[] = [];
    // Between two looks it may grow as fast as memory is cleared, and a busy machine has fewer looks: one of three will do.
    const isSeen = () => peaks.some((peak) => peak > most / 4 && peak < 4 * most);
    for (let attempt = 0; attempt < 3 && !isSeen(); attempt += 1) {
      const images = helper({ memoryBytes: most });
      const result = images.optimise(JOB, bomb, STAYS);
      peaks.push(await peakOf(await child(images)));
      expect(await result).toBeNull();
    }
    expect(isSeen(), `peaks of ${peaks.join(', ')} bytes`).toBe(true);
  });

  it('ends what takes longer than it may, and what is left', LONG, async () => {
    const images = helper({ milliseconds: 150 });
    const before = performance.now();
    expect(await images.optimise(JOB, makeBomb(6000, 6000), STAYS)).toBeNull();
    expect(performance.now() - before).toBeLessThan(20_000);
    const patient = helper();
    const controller = new AbortController();
    const left = patient.optimise(JOB, makeBomb(6000, 6000), controller.signal);
    const pid = await child(patient);
    controller.abort();
    await expect(left).rejects.toMatchObject({ code: 'aborted' });
    expect(patient.running).toEqual([]);
    expect(existsSync(`/proc/${pid}`)).toBe(false);
  });

  // Not SIGSEGV: Node takes one that was sent and raises it again, which its confinement refuses.
  it.each(['SIGKILL', 'SIGSYS'] as const)('is not harmed by the death of one by %s', LONG, async (signal) => {
    const images = helper();
    const result = images.optimise(JOB, makeBomb(6000, 6000), STAYS);
    const pid = await child(images);
    await sleep(Math.random() * 300);
    process.kill(pid, signal);
    expect(await result).toBeNull();
    expect(await images.optimise(JOB, small, STAYS)).not.toBeNull();
  });

  it('runs so many at a time, lets so many wait, and refuses the rest', LONG, async () => {
    const images = helper({ running: 1, waiting: 2 });
    let most = 0;
    const timer = setInterval(() => {
      most = Math.max(most, images.running.length);
    }, 5);
    const gone = new AbortController();
    const first = images.optimise(JOB, small, STAYS);
    const second = images.optimise(JOB, small, gone.signal);
    const third = images.optimise(JOB, small, STAYS);
    await expect(images.optimise(JOB, small, STAYS)).rejects.toMatchObject({ code: 'capacity' });
    gone.abort();
    await expect(second).rejects.toMatchObject({ code: 'aborted' });
    expect(await first).not.toBeNull();
    expect(await third).not.toBeNull();
    clearInterval(timer);
    expect(most).toBe(1);
  });

  it('reads no more images than are decoded soon, and none of those that wait', LONG, async () => {
    const images = helper({ running: 1, held: 2, waiting: 2 });
    const opened: (() => void)[] = [];
    const files = Object.assign(Object.create(RunnerFiles.prototype) as RunnerFiles, {
      async *agentStream() {
        await new Promise<void>((resolve) => opened.push(resolve));
        yield Buffer.concat([Buffer.from('BM'), Buffer.alloc(100)]);
      },
    });
    const gone = new AbortController();
    const settings = { maxDimension: 256, jpegQuality: 80, webpQuality: 80, pngCompression: 6 };
    const read = (signal = STAYS) => readImage(files, images, settings, '/workspace/x.bmp', signal);
    const reads = Array.from({ length: 9 }, () => read());
    const left = read(gone.signal);
    await expect(read()).rejects.toMatchObject({ code: 'capacity' });
    gone.abort();
    await expect(left).rejects.toMatchObject({ code: 'aborted' });
    reads.push(read());
    for (let ended = 0; ended < 10; ended += 1) {
      await vi.waitFor(() => expect(opened.length).toBe(Math.min(10, ended + 2)), 20_000);
      opened[ended]?.();
    }
    expect(await Promise.all(reads)).toHaveLength(10);
  });

  it.each([
    ['is not given', () => null],
    ['is not there', () => '/nowhere/boxkite-runner'],
    ['can not confine it', (failing: string) => failing],
  ])('decodes nothing where the native program %s', async (_what, runner) => {
    const directory = mkdtempSync(join(tmpdir(), 'boxkite-confined-'));
    try {
      const failing = join(directory, 'boxkite-runner');
      writeFileSync(failing, '#!/bin/sh\nexit 125\n', { mode: 0o755 });
      const images = new ImageHelper(runner(failing));
      helpers.push(images);
      await expect(images.optimise(JOB, small, STAYS)).rejects.toMatchObject({ code: 'isolation_unavailable' });
      expect(images.running).toEqual([]);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

  it('has no environment, no descriptor of ours, no file to write, and bounds of the kernel', LONG, async () => {
    const images = helper();
    const controller = new AbortController();
    const result = images.optimise(JOB, makeBomb(8000, 8000), controller.signal);
    const pid = await child(images);
    expect(readFileSync(`/proc/${pid}/environ`, 'latin1')).toBe('');
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    expect(status).toMatch(/^NoNewPrivs:\t1\n(.*\n)*?Seccomp:\t2$/m);
    expect(status).toMatch(/^CapPrm:\t0+$/m);
    const limits = readFileSync(`/proc/${pid}/limits`, 'latin1');
    const soft = (name: string) => new RegExp(`^${name} +(\\S+) +(\\S+)`, 'm').exec(limits)?.slice(1);
    // Less than any core has. 0 is what a caller has who bounded it further.
    expect([
      ['0', '0'],
      ['1', '1'],
    ]).toContainEqual(soft('Max core file size'));
    expect(soft('Max file size')).toEqual(['0', '0']);
    expect(soft('Max cpu time')).toEqual(['30', '30']);
    expect(soft('Max open files')).toEqual(['512', '512']);
    expect(soft('Max data size')).toEqual([String(2048 * MIB), String(2048 * MIB)]);
    const ours = new Set(readdirSync('/proc/self/fd').map((fd) => linkOf(`/proc/self/fd/${fd}`)));
    const theirs = readdirSync(`/proc/${pid}/fd`).filter((fd) => Number(fd) > 2);
    const shared = theirs.map((fd) => linkOf(`/proc/${pid}/fd/${fd}`)).filter((link) => ours.has(link));
    expect(shared.filter((link) => !link.startsWith('anon_inode:') && link !== '/dev/null')).toEqual([]);
    expect(readFileSync(`/proc/${pid}/oom_score_adj`, 'latin1').trim()).toBe('1000');
    controller.abort();
    await expect(result).rejects.toMatchObject({ code: 'aborted' });
  });
});

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
