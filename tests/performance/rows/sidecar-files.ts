/** Files by the reference's calls of `boxkite sidecar`, against the same work by Node and by ripgrep on the host. */
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { need, runBare } from '../bare.ts';
import { type Comparison, compare } from '../comparison.ts';
import { amountOfCalls } from '../effort.ts';
import { atPercentile, callByCall } from '../rounds.ts';
import type { Row } from '../row.ts';
import { connectionTo, MadeJson, type SidecarConnection, withSidecar } from '../sidecars.ts';
import { withHostDirectory } from './files.ts';

const SOURCE = 'tests/performance/rows/sidecar-files.ts';
const RIPGREP = '/usr/bin/rg';
const FILES = 20_000;
const PER_DIRECTORY = 200;
const LISTED = 1000;
const LINE = 'the quick brown fox jumps over the lazy dog 0123456789\n';
const LINES_PER_FILE = 36;
const NEEDLE = 'needle[0-9]+';
/** Files with a line that matches. */
const EVERY = 500;

interface Measured {
  readonly what: string;
  readonly baseline: string;
  readonly name: string;
  readonly promise: number;
  readonly calls: number;
  /** What is there on both sides, and the two calls. */
  readonly prepare: (
    connection: SidecarConnection,
    directory: string,
  ) => Promise<{ readonly subject: () => Promise<void>; readonly baseline: () => Promise<void> }>;
}

function rowOf({ name, what, baseline, promise, calls, prepare }: Measured): Row {
  return {
    name,
    source: SOURCE,
    what,
    baseline,
    run: async ({ rounds, scale }): Promise<readonly Comparison[]> =>
      await withSidecar(async (sidecar) =>
        withHostDirectory(async (directory) => {
          using connection = connectionTo(sidecar);
          const sides = await prepare(connection, directory);
          const samples = await callByCall(rounds, amountOfCalls(calls, scale), sides.subject, sides.baseline);
          return [compare({ name: 'p50', unit: 'ms', better: 'lower', promise }, atPercentile(samples, 0.5))];
        }),
      ),
  };
}

/** A small file is shown. */
export const sidecarView = rowOf({
  name: 'sidecar-view',
  what: 'POST /view of 1 KB',
  baseline: 'fs.promises.readFile as text',
  promise: 5,
  calls: 400,
  prepare: async (connection, directory) => {
    const content = 'a line of sixteen'.repeat(60).slice(0, 1024);
    const path = join(directory, 'small');
    await writeFile(path, content);
    await connection.call('POST', '/file-create', { path: 'small', content });
    return {
      subject: async () => {
        const answer = JSON.parse((await connection.call('POST', '/view', { path: 'small' })).toString()) as View;
        if (answer.content !== content) throw new TypeError('another text was shown');
      },
      baseline: async () => {
        if ((await readFile(path, 'utf8')) !== content) throw new TypeError('another text was read');
      },
    };
  },
});

/** A large file is written. */
export const sidecarCreate = rowOf({
  name: 'sidecar-create',
  what: 'POST /file-create of 1 MB of text, its JSON made before',
  baseline: 'fs.promises.writeFile of the same text',
  promise: 3,
  calls: 60,
  prepare: async (connection, directory) => {
    const content = LINE.repeat(Math.ceil(1_000_000 / LINE.length)).slice(0, 1_000_000);
    const path = join(directory, 'large');
    const body = new MadeJson({ path: 'large', content });
    return {
      subject: async () => {
        await connection.call('POST', '/file-create', body);
      },
      baseline: async () => await writeFile(path, content),
    };
  },
});

/** A directory is listed. */
export const sidecarLs = rowOf({
  name: 'sidecar-ls',
  what: `POST /ls of ${LISTED} entries`,
  baseline: 'fs.promises.readdir, and stat of each',
  promise: 5,
  calls: 30,
  prepare: async (connection, directory) => {
    const names = Array.from({ length: LISTED }, (_, at) => `file-${String(at).padStart(4, '0')}.txt`);
    for (const name of names) await writeFile(join(directory, name), name);
    const command = `mkdir listed; cd listed; for i in $(seq -f '%04.0f' 0 ${LISTED - 1}); do printf x > file-$i.txt; done`;
    await connection.call('POST', '/exec', { command });
    return {
      subject: async () => {
        const { entries } = JSON.parse((await connection.call('POST', '/ls', { path: 'listed' })).toString()) as Listed;
        if (entries.length !== LISTED) throw new TypeError(`${entries.length} entries were listed`);
      },
      baseline: async () => {
        const found = await Promise.all((await readdir(directory)).map((name) => stat(join(directory, name))));
        if (found.length !== LISTED) throw new TypeError(`${found.length} entries were found`);
      },
    };
  },
});

/** A tree is searched. */
export const sidecarGrep = rowOf({
  name: 'sidecar-grep',
  what: `POST /grep over ${FILES} files of 2 KB`,
  baseline: "Debian's rg over the same files, hidden ones too, without ignore files",
  promise: 1.5,
  calls: 4,
  prepare: async (connection, directory) => {
    need(RIPGREP, 'apt-get install ripgrep');
    const plain = LINE.repeat(LINES_PER_FILE);
    for (let at = 0; at < FILES; at += 1) {
      const parent = join(directory, `d${Math.floor(at / PER_DIRECTORY)}`);
      if (at % PER_DIRECTORY === 0) await mkdir(parent);
      await writeFile(join(parent, `f${at}.txt`), at % EVERY === 0 ? `${plain}needle${at}\n` : plain);
    }
    await connection.call('POST', '/exec', { command: TREE, timeout: 120 });
    const request = { pattern: NEEDLE, path: 'tree' };
    return {
      subject: async () => {
        const { matches, error, truncated } = JSON.parse(
          (await connection.call('POST', '/grep', request)).toString(),
        ) as Found;
        if (error !== null || truncated || matches.length !== FILES / EVERY) {
          throw new TypeError(`${matches.length} matches, ${error ?? 'no error'}`);
        }
      },
      baseline: async () => await runBare(RIPGREP, ['--no-config', '-uu', '--line-number', NEEDLE, directory]),
    };
  },
});

/** The same files inside, by the sandbox's own Python. */
const TREE = `python3 - <<'END'
import os
plain = ${JSON.stringify(LINE)} * ${LINES_PER_FILE}
for at in range(${FILES}):
    parent = 'tree/d%d' % (at // ${PER_DIRECTORY})
    if at % ${PER_DIRECTORY} == 0: os.makedirs(parent)
    with open('%s/f%d.txt' % (parent, at), 'w') as file:
        file.write(plain + 'needle%d\\n' % at if at % ${EVERY} == 0 else plain)
END`;

interface View {
  readonly content: string;
}

interface Listed {
  readonly entries: readonly unknown[];
}

interface Found {
  readonly matches: readonly unknown[];
  readonly error: string | null;
  readonly truncated: boolean;
}
