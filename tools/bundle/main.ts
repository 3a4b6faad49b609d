/**
 * Bundles boxkite into dist/, or into the directory that is named: the command-line program `boxkite.mjs`, the daemon
 * `daemon.mjs`, the sidecar `sidecar.mjs` with its `image-helper.mjs` and `codecs/`, their chunks, and the two native
 * programs in `bin/`.
 * Rolldown by itself: a dependency of tsdown is published for some architectures only, which no lockfile can hold.
 */
import { chmod, copyFile, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { rolldown } from 'rolldown';
import { builtins, plainHttp } from './builtins.ts';
import { codecNotices, copyCodecs } from './codecs.ts';
import { notices } from './notices.ts';
import { oneByte } from './one-byte.ts';

const root = join(import.meta.dirname, '..', '..');
const target = `${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-unknown-linux-gnu`;
const dist = resolve(process.argv[2] ?? join(root, 'dist'));
const fresh = `${dist}.new`;

/** The weakened twin is missing on purpose: it is never bundled or installed. */
const programs = ['boxkite-runner', 'boxkite-agent'] as const;

async function bundle(): Promise<void> {
  await using build = await rolldown({
    input: {
      boxkite: join(import.meta.dirname, 'entry.ts'),
      daemon: join(import.meta.dirname, 'daemon-entry.ts'),
      sidecar: join(import.meta.dirname, 'sidecar-entry.ts'),
      'image-helper': join(root, 'packages', 'sidecar', 'src', 'images', 'helper.ts'),
    },
    platform: 'node',
    // Workspace packages and npm dependencies are all inlined: dist/ runs without node_modules.
    plugins: [plainHttp(), oneByte()],
    external: [builtins],
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
    // Both programs use policy; in the chunk of the daemon's entry it would start the daemon when the other loads it. The
    // grammar and the patterns are apart: what only redacts doesn't wait for them.
    codeSplitting: {
      groups: [
        { name: 'policy', test: /\/packages\/policy\/src\/(?!commands\/|index\.ts)/, priority: 1 },
        { name: 'commands', test: /\/packages\/policy\/|\/node_modules\/(?:unbash|re2js)\// },
      ],
    },
    sourcemap: false,
    banner: (chunk) => (chunk.isEntry ? '#!/usr/bin/env node' : ''),
  });
  const modules = written.output.flatMap((output) => (output.type === 'chunk' ? output.moduleIds : []));
  await writeFile(join(fresh, 'THIRD-PARTY-NOTICES'), `${notices(modules)}\n\n${codecNotices()}`);
  copyCodecs(join(fresh, 'codecs'));
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
await mkdir(dirname(dist), { recursive: true });
await bundle();
await copyPrograms();
await chmod(join(fresh, 'boxkite.mjs'), 0o755);
await rm(dist, { recursive: true, force: true });
await rename(fresh, dist);
