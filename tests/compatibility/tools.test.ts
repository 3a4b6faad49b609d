/** The 15 tools of the published library, unmodified, over a real sidecar: a success, a failure and a limit of each. */
import { randomUUID } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import { startSidecar, type TestSidecar } from '@boxkite/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Library, type ToolFacts } from './support/published.ts';
import { RecordingProxy } from './support/recording-proxy.ts';

let sidecar: TestSidecar;
let library: Library;
let facts: readonly ToolFacts[];
const named: string[] = [];

beforeAll(async () => {
  sidecar = await startSidecar();
  library = new Library(sidecar);
}, 120_000);

afterAll(async () => {
  await library.end();
  await sidecar[Symbol.asyncDispose]();
});

// A use of the sandbox of its own for each test: nothing of the one before is left, nor of its budget.
beforeEach(async () => {
  facts = await library.createSession(randomUUID());
});

afterEach(({ task }) => {
  const said = sidecar.log.splice(0).join('').slice(-4000);
  if (task.result?.state === 'fail' && said !== '') console.error(said);
});

interface Cases {
  readonly success: () => Promise<void>;
  readonly failure: () => Promise<void>;
  readonly limit: () => Promise<void>;
}

function tool(name: string, cases: Cases): void {
  named.push(name);
  describe(name, () => {
    it('succeeds', cases.success);
    it('fails with a text', cases.failure);
    it('keeps to its limit', cases.limit, 120_000);
  });
}

/** What a tool says; the second word is what the client's exceptions have of our status. */
const use = (name: string, args: Readonly<Record<string, unknown>> = {}) => library.tool(name, args);
const bash = (command: string) => use('bash_tool', { command });

async function start(command: string, more: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const said = await use('start_process', { command, ...more });
  const id = /^Started process (\S+) \(status=\w+\)/.exec(said)?.[1];
  if (id === undefined) throw new Error(said);
  return id;
}

/** Polls a process until what it says matches. */
async function output(id: string, pattern: RegExp): Promise<string> {
  const deadline = performance.now() + 20_000;
  for (;;) {
    const said = await use('get_process_output', { process_id: id });
    if (pattern.test(said)) return said;
    if (performance.now() > deadline) throw new Error(`not ${pattern}: ${said}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function seconds(work: Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work;
  return (performance.now() - started) / 1000;
}

function crc(bytes: Buffer): number {
  let value = 0xffffffff;
  for (const byte of bytes) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0xedb88320 : 0);
  }
  return (value ^ 0xffffffff) >>> 0;
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const whole = Buffer.alloc(body.length + 8);
  whole.writeUInt32BE(data.length, 0);
  body.copy(whole, 4);
  whole.writeUInt32BE(crc(body), body.length + 4);
  return whole;
}

/** A grey PNG. */
function png(width: number, height: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 0, 0, 0, 0], 8);
  const rows = deflateSync(Buffer.alloc((width + 1) * height));
  const signature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');
  return Buffer.concat([signature, chunk('IHDR', header), chunk('IDAT', rows), chunk('IEND', Buffer.alloc(0))]);
}

async function put(path: string, bytes: Buffer): Promise<void> {
  expect(await bash(`echo ${bytes.toString('base64')} | base64 -d > ${path}`)).not.toContain('Error');
}

interface Image {
  readonly image: { readonly mime_type: string; readonly base64_data: string; readonly file_path: string };
}

function pngSize(said: string): readonly [number, number] {
  const { image } = JSON.parse(said) as Image;
  expect(image.mime_type).toBe('image/png');
  const bytes = Buffer.from(image.base64_data, 'base64');
  return [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
}

describe('tools of the published library', () => {
  tool('bash_tool', {
    success: async () => {
      expect(await bash('echo out; echo err >&2; echo kept > /workspace/a')).toMatch(/^out\n+err\n?$/);
      expect(await bash('cat /workspace/a')).toBe('kept\n');
    },
    failure: async () => {
      expect(await bash('echo why >&2; exit 3')).toMatch(/^Error .*\b3\b[\s\S]*why/);
      expect(await bash('no-such-program')).toMatch(/^Error .*\b127\b/);
    },
    limit: async () => {
      const slow = use('bash_tool', { command: 'echo begun; sleep 60', timeout: 1 });
      expect(await seconds(slow)).toBeLessThan(40);
      expect(await slow).toMatch(/^Error .*\b124\b/);
      const long = await bash('head -c 3000000 /dev/zero | tr "\\0" x; echo no end');
      expect(long.match(/x/g)?.length).toBe(1_048_576);
      expect(long).not.toContain('no end');
    },
  });

  tool('python_interpreter', {
    success: async () => {
      expect(await use('python_interpreter', { code: 'x = 41\nprint("said")' })).toBe('said\n');
      expect(await use('python_interpreter', { code: 'x + 1' })).toBe('42');
    },
    failure: async () => {
      expect(await use('python_interpreter', { code: 'kept = 1\n1/0' })).toMatch(/^Error[\s\S]*ZeroDivisionError/);
      expect(await use('python_interpreter', { code: 'kept' })).toBe('1');
      expect(await use('python_interpreter', { code: 'import sys; sys.exit(3)' })).toMatch(/^Error/);
      expect(await use('python_interpreter', { code: '6*7' })).toBe('42');
    },
    limit: async () => {
      const long = await use('python_interpreter', { code: 'print("x" * 1_000_000)' });
      expect(long.match(/x/g)?.length).toBeLessThanOrEqual(262_144);
      expect(long).toMatch(/truncated\]$/);
      const slow = use('python_interpreter', { code: 'import time; time.sleep(60)', timeout: 1 });
      expect(await seconds(slow)).toBeLessThan(40);
      expect(await slow).toMatch(/^Error/);
      expect(await use('python_interpreter', { code: '6*7' })).toBe('42');
    },
  });

  tool('file_create', {
    success: async () => {
      const content = 'one\r\ntwo\r\u00fc\u{1f600}';
      expect(await use('file_create', { path: 'deep/er/a.txt', content })).toContain(
        `/workspace/deep/er/a.txt (${Buffer.byteLength(content)} bytes)`,
      );
      expect(await bash('od -An -tx1 -v deep/er/a.txt | tr -d " \\n"')).toBe(Buffer.from(content).toString('hex'));
      expect(await use('file_create', { path: '/workspace/deep/er/a.txt', content: 'new' })).toContain('(3 bytes)');
      expect(await bash('cat deep/er/a.txt; stat -c %A deep/er/a.txt')).toBe('new-rw-r--r--\n');
    },
    failure: async () => {
      expect(await use('file_create', { path: '/etc/none', content: 'x' })).toMatch(/^Error.*\b400\b/);
      expect(await use('file_create', { path: '/mnt/skills/none', content: 'x' })).toMatch(/^Error.*\b403\b/);
      expect(await use('file_create', { path: '/mnt/user-data/uploads/none', content: 'x' })).toMatch(
        /^Error.*\b403\b/,
      );
      await bash('mkdir folder');
      expect(await use('file_create', { path: 'folder', content: 'x' })).toMatch(/^Error.*\b4\d\d\b/);
    },
    limit: async () => {
      // Ten megabytes of what takes two bytes in JSON.
      const most = '\n'.repeat(10 * 1024 * 1024);
      expect(await use('file_create', { path: 'most', content: most })).toContain(`(${most.length} bytes)`);
      expect(await bash('stat -c %s most')).toBe(`${most.length}\n`);
      expect(await use('file_create', { path: 'most', content: `${most}x` })).toMatch(/^Error/);
    },
  });

  tool('view', {
    success: async () => {
      await bash('seq 1 300 > lines; mkdir folder; touch folder/in');
      const range = await use('view', { path: 'lines', start_line: 5, end_line: 7 });
      expect(range.split('\n').slice(2)).toEqual(['     5\t5', '     6\t6', '     7\t7']);
      expect(range).toContain('301');
      expect(await use('view', { path: 'folder' })).toMatch(/\n\nin$/);
      await put('a.png', png(3, 2));
      expect(pngSize(await use('view', { path: 'a.png' }))).toEqual([3, 2]);
      // A no-break space where the caller wrote a space.
      await bash("printf found > 'b\u00a0c'");
      expect(await use('view', { path: 'b c' })).toContain('found');
    },
    failure: async () => {
      expect(await use('view', { path: 'none' })).toMatch(/^Error.*\b404\b/);
      expect(await use('view', { path: 'none.png' })).toMatch(/^Error.*none\.png/);
      expect(await use('view', { path: '/etc/passwd' })).toMatch(/^Error.*\b400\b/);
      await bash("printf '\\377\\376\\0' > data; mkfifo pipe; ln -s /etc/passwd out");
      expect(await use('view', { path: 'data' })).toMatch(/^Error.*\b422\b/);
      expect(await use('view', { path: 'pipe' })).toMatch(/^Error.*\b4\d\d\b/);
      expect(await use('view', { path: 'out' })).toMatch(/^Error.*\b4\d\d\b/);
    },
    limit: async () => {
      await bash('head -c 200000 /dev/zero | tr "\\0" x > long; truncate -s 26214401 huge');
      const long = await use('view', { path: 'long' });
      expect(long.match(/x{2,}/g)?.join('').length).toBe(102_400);
      expect(await use('view', { path: 'huge' })).toMatch(/^Error.*\b422\b/);
      await put('wide.png', png(4096, 2));
      expect(pngSize(await use('view', { path: 'wide.png' }))).toEqual([2048, 1]);
    },
  });

  tool('str_replace', {
    success: async () => {
      await bash("printf 'one\\r\\ntwo\\n' > a; chmod 700 a");
      expect(await use('str_replace', { path: 'a', old_str: 'one', new_str: 'three' })).toMatch(/^Replaced 1 /);
      expect(await bash('od -An -c a | tr -d " \\n"; stat -c %a a')).toBe('three\\r\\ntwo\\n700\n');
    },
    failure: async () => {
      await bash("printf 'aa' > a");
      expect(await use('str_replace', { path: 'a', old_str: 'b', new_str: 'c' })).toMatch(/^Error/);
      expect(await use('str_replace', { path: 'a', old_str: 'a', new_str: 'c' })).toMatch(/^Error/);
      expect(await use('str_replace', { path: 'none', old_str: 'a', new_str: 'c' })).toMatch(/^Error.*\b404\b/);
      expect(await use('str_replace', { path: '/mnt/skills/a', old_str: 'a', new_str: 'c' })).toMatch(
        /^Error.*\b403\b/,
      );
      expect(await bash('cat a')).toBe('aa');
    },
    limit: async () => {
      await bash(
        'head -c 102400 /dev/zero | tr "\\0" x > a; head -c 10485761 /dev/zero | tr "\\0" y > big; echo z >> big',
      );
      const most = 'x'.repeat(102_400);
      expect(await use('str_replace', { path: 'a', old_str: `${most}x`, new_str: 'y' })).toMatch(/^Error/);
      expect(await use('str_replace', { path: 'a', old_str: most, new_str: 'y' })).toMatch(/^Replaced 1 /);
      expect(await bash('cat a')).toBe('y');
      expect(await use('str_replace', { path: 'big', old_str: 'z', new_str: 'y' })).toMatch(/^Error.*\b422\b/);
    },
  });

  tool('present_files', {
    success: async () => {
      await bash('echo a > a.txt; echo b > /mnt/user-data/outputs/b.txt');
      const said = await use('present_files', { paths: ['a.txt', '/mnt/user-data/outputs/b.txt'] });
      expect(said).toContain('/mnt/user-data/outputs/a.txt');
      expect(said).toMatch(/\*\*a\.txt\*\* \(2 bytes\)/);
      expect(said).toMatch(/\*\*b\.txt\*\* \(2 bytes\)/);
      expect(said).not.toMatch(/not found/i);
      expect(await bash('cat /mnt/user-data/outputs/a.txt')).toBe('a\n');
      // Once more: the file there is replaced.
      await bash('echo more > a.txt');
      expect(await use('present_files', { paths: ['a.txt'] })).toMatch(/\*\*a\.txt\*\* \(5 bytes\)/);
    },
    failure: async () => {
      expect(await use('present_files', { paths: ['none.txt'] })).toMatch(/none\.txt/);
      expect(await use('present_files', { paths: ['none.txt'] })).not.toMatch(/\*\*none\.txt\*\*/);
      expect(await use('present_files', { paths: ['/etc/passwd'] })).toMatch(/^Error.*\b400\b/);
    },
    limit: async () => {
      await bash('mkdir many other; for i in $(seq 1 200); do echo $i > many/$i.txt; done; echo other > other/1.txt');
      const paths = Array.from({ length: 200 }, (_, index) => `many/${index + 1}.txt`);
      const said = await use('present_files', { paths });
      expect(said.match(/^- \*\*\d+\.txt\*\*/gm)?.length).toBe(200);
      expect(await bash('ls /mnt/user-data/outputs | wc -l')).toBe('200\n');
      // Two of one name: both are there.
      await use('present_files', { paths: ['many/1.txt', 'other/1.txt'] });
      expect(await bash('cd /mnt/user-data/outputs; cat 1*.txt | grep -cx "1\\|other"')).toBe('2\n');
    },
  });

  tool('ls', {
    success: async () => {
      await bash('mkdir sub; printf 123 > file; printf 1 > sub/deeper');
      const said = await use('ls');
      expect(said).toMatch(/\/workspace\/file {2}\(3 bytes\)/);
      expect(said).toMatch(/\/workspace\/sub\/+$/m);
      expect(said).not.toContain('deeper');
    },
    failure: async () => {
      expect(await use('ls', { path: '/etc' })).toMatch(/^Error.*\b400\b/);
      expect(await use('ls', { path: '../..' })).toMatch(/^Error.*\b400\b/);
    },
    limit: async () => {
      await bash('mkdir many; cd many; seq 1 5000 | xargs touch');
      const said = await use('ls', { path: 'many' });
      expect(said.match(/^\/workspace\/many\/\d+ /gm)?.length).toBe(5000);
    },
  });

  tool('glob', {
    success: async () => {
      await bash('mkdir -p a/b; touch top.py a/one.py a/b/two.py a/b/no.txt');
      const said = await use('glob', { pattern: '**/*.py' });
      for (const path of ['top.py', 'a/one.py', 'a/b/two.py']) expect(said).toContain(`/workspace/${path}`);
      expect(said).not.toContain('no.txt');
    },
    failure: async () => {
      expect(await use('glob', { pattern: '*', path: '/etc' })).toMatch(/^Error.*\b400\b/);
      expect(await use('glob', { pattern: '*.none' })).not.toContain('/workspace/');
    },
    limit: async () => {
      await bash('mkdir many; cd many; seq 1 5000 | xargs touch');
      const said = await use('glob', { pattern: 'many/*' });
      expect(said.match(/^\/workspace\/many\/\d+ /gm)?.length).toBe(5000);
    },
  });

  tool('grep', {
    success: async () => {
      await bash("mkdir a; printf 'x\\nneedle 1\\n' > a/b.py; printf 'needle 2\\n' > c.txt");
      const said = await use('grep', { pattern: 'need.e \\d' });
      expect(said).toContain('/workspace/a/b.py:2: needle 1');
      expect(said).toContain('/workspace/c.txt:1: needle 2');
      expect(await use('grep', { pattern: 'needle', glob: '*.py' })).not.toContain('c.txt');
    },
    failure: async () => {
      expect(await use('grep', { pattern: '(' })).toMatch(/^Error/);
      expect(await use('grep', { pattern: 'x', path: '/etc' })).toMatch(/^Error.*\b400\b/);
    },
    limit: async () => {
      await bash('seq 1 1000 > lines');
      const said = await use('grep', { pattern: '\\d', max_matches: 3 });
      expect(said.match(/^\/workspace\/lines:\d+: \d+$/gm)?.length).toBe(3);
      expect(said).toContain('truncated');
      expect((await use('grep', { pattern: '\\d' })).match(/^\/workspace\/lines:/gm)?.length).toBe(500);
    },
  });

  tool('start_process', {
    success: async () => {
      const id = await start('echo begun; sleep 60', { description: 'a label' });
      await output(id, /begun/);
      expect(await use('list_processes')).toContain('a label');
    },
    failure: async () => {
      expect(await use('start_process', { command: 'true', max_runtime_seconds: 0 })).toMatch(/^Error.*\b4\d\d\b/);
      expect(await output(await start('no-such-program'), /exit_code: 127/)).toContain('exited');
    },
    limit: async () => {
      const ids = [await start('sleep 60'), await start('sleep 60'), await start('sleep 60'), await start('sleep 60')];
      expect(await use('start_process', { command: 'sleep 60' })).toMatch(/^Error.*\b429\b/);
      await use('stop_process', { process_id: ids[0] });
      const short = await start('sleep 60', { max_runtime_seconds: 1 });
      expect(await output(short, /status: (?!running)/)).not.toContain('exit_code: 0');
    },
  });

  tool('get_process_output', {
    success: async () => {
      const id = await start('echo one; read line; echo two');
      const first = await output(id, /one/);
      expect(first).toContain('status: running');
      const next = Number(/next_offset: (\d+)/.exec(first)?.[1]);
      expect(next).toBe(4);
      await use('send_process_input', { process_id: id, data: '\n' });
      await output(id, /exit_code: 0/);
      const rest = await use('get_process_output', { process_id: id, since_offset: next });
      expect(rest).toMatch(/next_offset: 8\n.*\ntwo\n?$/);
    },
    failure: async () => {
      const said = await use('get_process_output', { process_id: 'none' });
      expect(said).toMatch(/^Error[^:]*: \S+/);
      // The sentence is the sidecar's own, not the client's for a status.
      expect(said).not.toMatch(/\b404\b/);
      expect(await use('get_process_output', { process_id: '../../health' })).toMatch(/^Error/);
    },
    limit: async () => {
      const id = await start('head -c 1000000 /dev/zero | tr "\\0" x; echo end');
      const said = await output(id, /exit_code: 0[\s\S]*end/);
      expect(said).toContain('truncated');
      expect(said).toContain('next_offset: 1000004');
      expect(said.match(/x{2,}/g)?.join('').length).toBeLessThanOrEqual(262_144);
      expect(said.match(/x{2,}/g)?.join('').length).toBeGreaterThan(200_000);
    },
  });

  tool('send_process_input', {
    success: async () => {
      const id = await start('while read line; do echo "got $line"; done');
      expect(await use('send_process_input', { process_id: id, data: 'h\u00fc\n' })).toMatch(/\b4 bytes/);
      await output(id, /got h\u00fc/);
    },
    failure: async () => {
      const id = await start('true');
      await output(id, /exit_code: 0/);
      expect(await use('send_process_input', { process_id: id, data: 'x' })).toMatch(/^Error.*\b409\b/);
      expect(await use('send_process_input', { process_id: 'none', data: 'x' })).toMatch(/^Error/);
    },
    limit: async () => {
      // More than any pipe holds, to a process that does not read: an answer, and the process stays one that can be ended.
      const id = await start('sleep 60');
      expect(await seconds(use('send_process_input', { process_id: id, data: 'x'.repeat(4 << 20) }))).toBeLessThan(60);
      expect(await use('stop_process', { process_id: id })).toContain('stopped');
      // And all of it to one that does.
      const reader = await start('head -c 4194304 | wc -c');
      expect(await use('send_process_input', { process_id: reader, data: 'x'.repeat(4 << 20) })).toContain('4194304');
      await output(reader, /\b4194304\n/);
    },
  });

  tool('stop_process', {
    success: async () => {
      const id = await start('sleep 60');
      expect(await use('stop_process', { process_id: id })).toMatch(/stopped/);
      expect(await use('list_processes')).not.toContain('running');
    },
    failure: async () => {
      const said = await use('stop_process', { process_id: 'none' });
      expect(said).toMatch(/^Error[^:]*: \S+/);
      expect(said).not.toMatch(/\b404\b/);
    },
    limit: async () => {
      const id = await start('trap "" TERM; echo ready; while :; do sleep 1; done');
      await output(id, /ready/);
      const stopping = use('stop_process', { process_id: id });
      const took = await seconds(stopping);
      expect(await stopping).toMatch(/stopped/);
      expect(took).toBeGreaterThan(3);
      expect(took).toBeLessThan(40);
    },
  });

  tool('list_processes', {
    success: async () => {
      const id = await start('exec sleep 60', { description: 'nap' });
      const done = await start('exit 3');
      await output(done, /exit_code: 3/);
      const said = await use('list_processes');
      expect(said).toMatch(new RegExp(`^${id} \\(nap\\): running -- exec sleep 60$`, 'm'));
      expect(said).toMatch(new RegExp(`^${done}: exited, exit_code=3 -- exit 3$`, 'm'));
    },
    failure: async () => {
      const between = await RecordingProxy.start(sidecar.url);
      const cut = new Library({ url: between.url, token: sidecar.token });
      try {
        await cut.createSession(randomUUID());
        await between[Symbol.asyncDispose]();
        expect(await cut.tool('list_processes')).toMatch(/^Error/);
      } finally {
        await cut.end();
      }
      // Those of another session are not there.
      const id = await start('sleep 60');
      await library.createSession(randomUUID());
      expect(await use('list_processes')).not.toContain(id);
    },
    limit: async () => {
      const ids: string[] = [];
      for (let round = 0; round < 40; round++) {
        const id = await start('true');
        await output(id, /exit_code: 0/);
        ids.push(id);
      }
      const said = await use('list_processes');
      // The last ones at least; and a list of bounded length.
      expect(ids.slice(-4).filter((id) => !said.includes(id))).toEqual([]);
      expect(said.split('\n').length).toBeLessThanOrEqual(40);
    },
  });

  tool('watch_directory', {
    success: async () => {
      const watching = use('watch_directory', { timeout_seconds: 20 });
      const making = (async () => {
        // Until the watch has begun there is nothing to see it by.
        for (let count = 0; count < 20; count++) {
          await new Promise((resolve) => setTimeout(resolve, 300));
          await bash(`echo x > seen-${count}`);
        }
      })();
      expect(await watching).toMatch(/^(created|modified): seen-\d+$/m);
      await making;
    },
    failure: async () => {
      expect(await use('watch_directory', { path: '/etc', timeout_seconds: 1 })).toMatch(/^Error.*\b400\b/);
    },
    limit: async () => {
      const watching = use('watch_directory', { timeout_seconds: 1 });
      const took = await seconds(watching);
      expect(await watching).not.toMatch(/^Error|created|modified/);
      expect(took).toBeGreaterThan(0.9);
    },
  });

  it('are all of these', () => {
    expect(facts.map(({ name }) => name)).toEqual(named);
    expect(named.length).toBe(15);
  });
});
