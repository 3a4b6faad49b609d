/**
 * Bundles the command-line program into dist/: `boxkite.mjs`, its chunks, and the two native programs in `bin/`.
 * Rolldown by itself: a dependency of tsdown is published for some architectures only, which no lockfile can hold.
 */
import { chmod, copyFile, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { notices } from './notices.ts';

const root = join(import.meta.dirname, '..', '..');
const target = `${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-unknown-linux-gnu`;
const dist = join(root, 'dist');
const fresh = join(root, 'dist.new');

/** The weakened twin is missing on purpose: it is never bundled or installed. */
const programs = ['boxkite-runner', 'boxkite-agent'] as const;

async function bundle(): Promise<void> {
  await using build = await rolldown({
    input: { boxkite: join(import.meta.dirname, 'entry.ts') },
    platform: 'node',
    // Workspace packages and npm dependencies are all inlined: dist/ runs without node_modules.
    external: [/^node:/],
    resolve: { conditionNames: ['node', 'import'] },
    tsconfig: false,
    onLog(level, log, defaultHandler) {
      if (level === 'warn') throw new Error(`bundle: ${log.message}`);
      defaultHandler(level, log);
    },
  });
  const written = await build.write({
    dir: fresh,
    format: 'esm',
    entryFileNames: '[name].mjs',
    chunkFileNames: 'lib/[name]-[hash].mjs',
    minify: { compress: true, mangle: false, codegen: false },
    sourcemap: false,
    banner: (chunk) => (chunk.isEntry ? '#!/usr/bin/env node' : ''),
  });
  const modules = written.output.flatMap((output) => (output.type === 'chunk' ? output.moduleIds : []));
  await writeFile(join(fresh, 'THIRD-PARTY-NOTICES'), notices(modules));
}

async function copyPrograms(): Promise<void> {
  const from = join(root, 'runner', 'target', target, 'release');
  await mkdir(join(fresh, 'bin'));
  for (const name of programs) {
    const to = join(fresh, 'bin', name);
    await copyFile(join(from, name), to);
    await chmod(to, 0o755);
  }
  await copyFile(join(root, 'LICENSE'), join(fresh, 'LICENSE'));
}

await rm(fresh, { recursive: true, force: true });
await bundle();
await copyPrograms();
await chmod(join(fresh, 'boxkite.mjs'), 0o755);
await rm(dist, { recursive: true, force: true });
await rename(fresh, dist);
