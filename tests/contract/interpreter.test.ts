/** The sidecar's interpreter over a real runner, in a real sandbox. */
import { randomBytes } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { daemonSettings, type Session, type SidecarSettings } from '@boxkite/sidecar/app';
import { eventually, sleep, within } from '@boxkite/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ServedSessions } from './support/served-sessions.ts';

const CAP = 65_536;
let served: ServedSessions;
let count = 0;

beforeAll(async () => {
  served = await ServedSessions.start();
  served.registry.add('none', await served.host.open('none'));
});

afterAll(() => served[Symbol.asyncDispose]());

interface Answer extends Record<string, unknown> {
  readonly stdout: string;
  readonly result: string | null;
  readonly error: string | null;
  readonly truncated: boolean;
  readonly data: Readonly<Record<string, string>> | null;
  readonly displays: readonly Readonly<Record<string, string>>[];
  readonly end: string;
  readonly state: string;
  readonly fresh: boolean;
  readonly execution_id: string;
}

/** One session and its sidecar's interpreter. */
class Client implements AsyncDisposable {
  readonly name: string;
  readonly settings: SidecarSettings;
  session!: Session;
  #kill: () => Promise<void> = () => Promise.resolve();
  #token = '';

  private constructor(name: string, settings: SidecarSettings) {
    this.name = name;
    this.settings = settings;
  }

  static async open(limits: Partial<SidecarSettings> = {}, interpreter: object = {}): Promise<Client> {
    count += 1;
    const settings = {
      ...daemonSettings,
      ...limits,
      interpreter: { ...daemonSettings.interpreter, outputBytes: CAP, ...interpreter },
    };
    const client = new Client(`interpreter-${count}`, settings);
    await client.#connect();
    return client;
  }

  async #connect(): Promise<void> {
    const { session, kill } = await served.host.openAlone(this.name, this.settings);
    this.session = session;
    this.#kill = kill;
    this.#token = randomBytes(32).toString('base64url');
    served.registry.add(this.#token, session);
  }

  /** The process that holds the session is killed, and the next one takes over. */
  async die(): Promise<void> {
    served.registry.remove(this.#token);
    await this.#kill();
    await this.#connect();
  }

  async call(method: string, url: string, body?: unknown, signal?: AbortSignal) {
    const answer = await fetch(served.base + url, {
      method,
      headers: {
        'x-sidecar-auth-token': this.#token,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
    return { status: answer.status, json: (await answer.json()) as Record<string, unknown> };
  }

  /** Asserts 200. */
  async run(code: string, timeout = within(20_000) / 1000): Promise<Answer> {
    const { status, json } = await this.call('POST', '/interpreter/exec', { code, timeout: Math.ceil(timeout) });
    expect(status, JSON.stringify(json)).toBe(200);
    return json as Answer;
  }

  async status(): Promise<Record<string, unknown>> {
    return (await this.call('GET', '/interpreter/status')).json;
  }

  /** Resolves when the code of a call has made a file of this name. */
  async made(name: string): Promise<void> {
    await eventually(
      () =>
        this.session.files.stat(name).then(
          () => true,
          () => false,
        ),
      20_000,
      () => `${name} is not there`,
    );
  }

  get authorization(): string {
    return this.#token;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    served.registry.remove(this.#token);
    await this.session.destroy();
    await this.#kill();
  }
}

describe('a call', () => {
  it('has the fields of the reference, and keeps its globals for the next one', async () => {
    await using client = await Client.open();
    expect(await client.status()).toMatchObject({ running: false, started_at: null, idle_seconds: null });
    const first = await client.run('x = 40\nprint("hello")\nimport sys; print("there", file=sys.stderr)');
    expect(first).toMatchObject({
      stdout: 'hello\nthere\n',
      result: null,
      error: null,
      truncated: false,
      data: null,
      displays: [],
      end: 'completed',
      state: 'kept',
      fresh: true,
    });
    expect(await client.run('x + 2')).toMatchObject({ result: '42', data: { 'text/plain': '42' }, fresh: false });
    const raised = await client.run('y = 1\n1 / 0');
    expect(raised).toMatchObject({ result: null, end: 'raised', state: 'kept' });
    expect(raised.error).toContain('ZeroDivisionError');
    expect((await client.run('y')).result).toBe('1');
    const status = await client.status();
    expect(status).toMatchObject({ running: true, busy: false });
    expect(typeof status['idle_seconds']).toBe('number');
    expect(Date.parse(String(status['started_at']))).toBeGreaterThan(Date.now() - within(60_000));
  });

  it('begins in the workspace, and finds modules there', async () => {
    await using client = await Client.open();
    await client.run('open("mine.py", "w").write("value = 6")');
    expect((await client.run('import os, mine\n(os.getcwd(), mine.value)')).result).toBe("('/workspace', 6)");
    // A file of that name takes no part in the interpreter itself.
    await client.run('open("json.py", "w").write("1/0"); open("traceback.py", "w").write("1/0")');
    await client.call('POST', '/interpreter/reset');
    expect((await client.run('1 / 0')).error).toContain('ZeroDivisionError');
  });

  it('finds what is installed for the user, as soon as it is there', async () => {
    await using client = await Client.open();
    expect((await client.run('import installed_later')).error).toContain('ModuleNotFoundError');
    const code = [
      'import site, os',
      'place = site.getusersitepackages()',
      'os.makedirs(place)',
      'open(place + "/installed_later.py", "w").write("value = 8")',
      'import installed_later',
      '(place.startswith("/workspace/"), installed_later.value)',
    ].join('\n');
    expect(await client.run(code)).toMatchObject({ error: null, result: '(True, 8)' });
  });

  it('is refused where its body is wrong, and has no body of its own in the answer', async () => {
    await using client = await Client.open();
    for (const code of ['', '  \n\t']) {
      expect((await client.call('POST', '/interpreter/exec', { code })).status).toBe(400);
    }
    for (const body of [{}, { code: 5 }, { code: null }, { code: '1', timeout: 'soon' }, { code: 'secret\0' }, []]) {
      const { status, json } = await client.call('POST', '/interpreter/exec', body);
      expect(status, JSON.stringify(body)).toBe(422);
      expect(JSON.stringify(json)).not.toContain('secret');
    }
    expect((await client.call('POST', '/interpreter/exec', { code: '1', timeout: '5' })).status).toBe(200);
    expect((await client.call('POST', '/interpreter/exec', { code: '1', timeout: 1e9 })).status).toBe(200);
    expect((await client.call('POST', '/interpreter/exec', { code: '1', timeout: -5 })).status).toBe(200);
  });

  it('waits for those before it, and shares nothing with other sessions', async () => {
    await using client = await Client.open();
    await using other = await Client.open();
    await client.run('order = []');
    await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        client.run(
          `import time\nstart = len(order)\ntime.sleep(0.01)\norder.append(${index})\nassert len(order) == start + 1`,
        ),
      ),
    );
    expect((await client.run('sorted(order) == list(range(12))')).result).toBe('True');
    expect((await other.run('order')).error).toContain('NameError');
  });

  it('is answered whole below the cap, and cut and marked above it', async () => {
    await using client = await Client.open({}, { outputBytes: 262_144 });
    for (const size of [65_000, 70_000, 262_000]) {
      const { stdout, truncated } = await client.run(`print("x" * ${size}, end="")`);
      expect([stdout.length, truncated]).toEqual([size, false]);
    }
    const escaped = await client.run('print("\\x01\\"" * 100000, end="")');
    expect([escaped.stdout.length, escaped.truncated]).toEqual([200_000, false]);
    const long = await client.run('print("x" * 5_000_000)');
    expect([long.stdout.length, long.truncated]).toEqual([262_144, true]);
    const result = await client.run('"x" * 2_000_000');
    expect([result.result?.length, result.truncated]).toEqual([262_144, true]);
    expect((await client.run('import os; os.write(2, b"e" * 409600) and None')).truncated).toBe(true);
    expect(await client.run('1 + 1')).toMatchObject({ result: '2', truncated: false, fresh: false });
  });

  it('writes without end, and is cut, not killed', async () => {
    await using client = await Client.open();
    const { end, stdout, truncated, state } = await client.run('kept = 1\nfor _ in range(100000): print("y" * 1000)');
    expect([end, stdout.length, truncated, state]).toEqual(['completed', CAP, true, 'kept']);
    expect((await client.run('kept')).result).toBe('1');
  });

  it('shows values in their forms', async () => {
    await using client = await Client.open();
    const png = 'b"\\x89PNG\\r\\n\\x1a\\n"';
    const code = `class Shown:\n  def __repr__(self): return "plain"\n  def _repr_html_(self): return "<b>html</b>"\n  def _repr_png_(self): return ${png}\ndisplay(Shown())\nShown()`;
    const { result, data, displays } = await client.run(code);
    const forms = { 'text/plain': 'plain', 'text/html': '<b>html</b>', 'image/png': 'iVBORw0KGgo=' };
    expect([result, data, displays]).toEqual(['plain', forms, [forms]]);
  });
});

describe('code that ends its interpreter', () => {
  it.each([
    ['exits', 'import os\nprint("said")\nos._exit(4)', 'exited', /status 4/],
    ['crashes', 'import os, signal\nprint("said")\nos.kill(os.getpid(), signal.SIGSEGV)', 'signaled', /SIGSEGV/],
    ['takes the channel away', 'import os\nprint("said")\nos.close(3)', 'channel', /descriptor/],
    ['overruns its stack', 'import faulthandler, os\nprint("said")\nos.abort()', 'signaled', /SIGABRT/],
  ])('%s: an answer that says so, and the next call is served afresh', async (_, code, end, error) => {
    await using client = await Client.open();
    await client.run('x = 1');
    const answer = await client.run(code);
    expect(answer).toMatchObject({ end, state: 'lost', result: null, stdout: 'said\n' });
    expect(answer.error).toMatch(error);
    expect(await client.status()).toMatchObject({ running: false });
    expect((await client.run('x')).error).toContain('NameError');
    expect(await client.run('2')).toMatchObject({ result: '2', state: 'kept' });
  });

  it('may leave by sys.exit, which ends nothing', async () => {
    await using client = await Client.open();
    await client.run('x = 1');
    const { error, state } = await client.run('import sys\nsys.exit("bye")');
    expect([error?.trim().split('\n').at(-1), state]).toEqual(['SystemExit: bye', 'kept']);
    expect((await client.run('x')).result).toBe('1');
  });

  it('needs more memory than it may have', async () => {
    await using client = await Client.open({}, { memoryMb: 128 });
    const { via } = client.session.effective.memory;
    const answer = await client.run('x = 1\nhoard = [b"x" * 1_000_000 for _ in range(1000)]');
    if (via === 'none') {
      // Only the process itself is bounded, which fails inside.
      expect(answer).toMatchObject({ end: 'raised', state: 'kept' });
      expect(answer.error).toContain('MemoryError');
    } else {
      expect(answer).toMatchObject({ end: 'out_of_memory', state: 'lost' });
      expect(answer.error).toContain('128 MB');
      const { effective } = (await client.run('1')) && ((await client.status()) as { effective: { memory: object } });
      expect(effective.memory).toEqual({ via, bytes: 128 * 1024 * 1024 });
    }
    expect((await client.run('1 + 1')).result).toBe('2');
  });

  it('at its deadline is interrupted, and its state kept', async () => {
    await using client = await Client.open();
    const from = performance.now();
    const answer = await client.run('x = 5\nprint("said")\nwhile True: pass', 1);
    expect(performance.now() - from).toBeLessThan(within(5_000));
    expect(answer).toMatchObject({ end: 'timed_out', state: 'kept', stdout: 'said\n' });
    expect(answer.error).toMatch(/^Timed out after 1 seconds.*\n(.*\n)*KeyboardInterrupt\n$/);
    expect((await client.run('x')).result).toBe('5');
    const sleeping = await client.run('import subprocess\nsubprocess.run(["sleep", "60"])', 1);
    expect(sleeping).toMatchObject({ end: 'timed_out', state: 'kept' });
  });

  it('and does not heed that is killed with all it started', async () => {
    await using client = await Client.open();
    const stubborn = [
      'import subprocess, signal',
      'signal.signal(signal.SIGINT, signal.SIG_IGN)',
      'subprocess.Popen("setsid sleep 1000 & setsid sleep 1000 &", shell=True)',
      'while True: pass',
    ].join('\n');
    const answer = await client.run(stubborn, 1);
    expect(answer).toMatchObject({ end: 'timed_out', state: 'lost', result: null });
    expect(answer.error).toMatch(/^Timed out after 1 seconds.*is lost/s);
    expect((await served.host.runner.client.list()).execs.filter(({ state }) => state !== 'ended')).toEqual([]);
    expect((await client.run('1 + 1')).fresh).toBe(true);
  });

  it('whose interrupts are many never meet the next call', async () => {
    await using client = await Client.open();
    for (let round = 0; round < 3; round += 1) {
      // It ends within a few milliseconds of its deadline, on either side.
      const code = `import time\ntime.sleep(${0.994 + round * 0.004})`;
      const { end } = await client.run(code, 1);
      expect(['completed', 'timed_out']).toContain(end);
      for (let next = 0; next < 20; next += 1) {
        expect(await client.run('sum(range(20000))')).toMatchObject({ result: '199990000', error: null });
      }
    }
  });
});

describe('code that attacks its interpreter', () => {
  it('forges no answer to its own call or to a later one, and what it wrote is counted', async () => {
    await using client = await Client.open();
    const spam = [
      'import os, threading, time, json',
      'line = (json.dumps({"stdout": "", "result": "forged", "error": None}) + "\\n").encode()',
      'def forge():',
      '  while True:',
      '    for fd in range(1, 6):',
      '      try: os.write(fd, line + os.urandom(3000))',
      '      except OSError: pass',
      '    time.sleep(0.001)',
      'for _ in range(2): threading.Thread(target=forge, daemon=True).start()',
      '"own"',
    ].join('\n');
    expect((await client.run(spam)).result).toBe("'own'");
    for (let i = 0; i < 30; i += 1) {
      expect(await client.run(`"r" * 40000 + "${i}"`)).toMatchObject({ result: `'${'r'.repeat(40_000)}${i}'` });
    }
    const { dropped } = (await client.status()) as { dropped: { messages: number; bytes: number } };
    expect(dropped.messages).toBeGreaterThan(0);
    expect(dropped.bytes).toBeGreaterThan(0);
  });

  it('by a flood ends its own call, and the next one is served', async () => {
    await using client = await Client.open();
    const { end, state, error } = await client.run(
      'import os\nwhile True: os.write(3, bytes(65536))',
      within(15_000) / 1000,
    );
    expect([end, state]).toEqual(['channel', 'lost']);
    expect(error).toContain('flooded');
    // It is told of after the end of the interpreter, too.
    expect(((await client.status()) as { dropped: { bytes: number } }).dropped.bytes).toBeGreaterThan(16_000_000);
    expect((await client.run('1 + 1')).result).toBe('2');
  });

  it('by answering with the nonce of its call spoils that one alone', async () => {
    await using client = await Client.open();
    const code = [
      'import gc, os, sys',
      'frame = sys._getframe()',
      'while "nonce" not in frame.f_locals: frame = frame.f_back',
      'nonce = frame.f_locals["nonce"]',
      'os.write(3, nonce + bytes([2, 1, 7, 0]) + (5).to_bytes(4, "little") + b"wrong")',
      '1',
    ].join('\n');
    expect(await client.run(code)).toMatchObject({ end: 'channel', state: 'lost' });
    expect((await client.run('1 + 1')).result).toBe('2');
  });

  it('has a channel that shows it nothing of the host', async () => {
    await using client = await Client.open();
    const code = [
      'import array, fcntl, socket, struct',
      'names = array.array("B", bytes(4096))',
      // SIOCGIFCONF asks the network namespace of the socket.
      'size = struct.unpack("iL", fcntl.ioctl(3, 0x8912, struct.pack("iL", 4096, names.buffer_info()[0])))[0]',
      'found = [names.tobytes()[at:at + 16].split(b"\\0")[0] for at in range(0, size, 40)]',
      'channel = socket.socket(fileno=3)',
      'peer = struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))',
      'answer = (found, peer[0], channel.getsockname(), channel.getpeername())',
      'channel.detach(); answer',
    ].join('\n');
    // The peer is PID 1 of its own namespace.
    expect(await client.run(code)).toMatchObject({ error: null, result: "([b'lo'], 1, '', '')" });
  });

  it('finds no other descriptor than the declared ones', async () => {
    await using client = await Client.open();
    const { result } = await client.run(
      'import os\nfound = {}\nfor fd in range(64):\n  try: found[fd] = os.readlink(f"/proc/self/fd/{fd}").split(":")[0]\n  except OSError: pass\nfound',
    );
    expect(result).toBe("{0: '/dev/null', 1: 'pipe', 2: 'pipe', 3: 'socket'}");
    const { effective } = (await client.status()) as { effective: { descriptors: number[] } };
    expect(effective.descriptors).toEqual([0, 1, 2, 3]);
    const child = 'import subprocess\nsubprocess.run("ls /proc/self/fd", shell=True, capture_output=True).stdout';
    expect((await client.run(child)).result).toBe(String.raw`b'0\n1\n2\n3\n'`);
  });
});

describe('an interpreter', () => {
  it('is one process, in which an earlier call may change later ones and their answers, until a reset', async () => {
    await using client = await Client.open();
    const code = [
      'import sys, threading, time',
      'x = 0',
      'def count():',
      '  global x',
      '  while True: x += 1; time.sleep(0.01)',
      'threading.Thread(target=count, daemon=True).start()',
      'frame = sys._getframe()',
      'while "nonce" not in frame.f_locals: frame = frame.f_back',
      'reply = frame.f_locals["reply"]',
      'cell = reply.__closure__[reply.__code__.co_freevars.index("send")]',
      'send = cell.cell_contents',
      'cell.cell_contents = lambda nonce, kind, payload: send(nonce, kind, payload.replace(b"own", b"new"))',
    ].join('\n');
    expect((await client.run(code)).error).toBeNull();
    expect((await client.run('"own"')).result).toBe("'new'");
    const from = Number((await client.run('x')).result);
    await eventually(
      async () => Number((await client.run('x')).result) > from,
      within(10_000),
      () => 'the thread changes nothing',
    );
    await client.call('POST', '/interpreter/reset');
    expect((await client.run('"own"')).result).toBe("'own'");
    expect((await client.run('x')).error).toContain('NameError');
    expect((await client.run('import threading\nlen(threading.enumerate())')).result).toBe('1');
  });

  it('is ended by a reset, with the call that it is in', async () => {
    await using client = await Client.open();
    await client.run('x = 1');
    const running = client.run('import time\nprint("said", flush=True)\ntime.sleep(100)');
    await eventually(
      async () => (await client.status())['busy'] === true,
      within(10_000),
      () => 'it is not busy',
    );
    await sleep(1200);
    // A sandbox whose code runs is not idle.
    expect(client.session.idleSeconds).toBe(0);
    expect(await client.call('POST', '/interpreter/reset')).toEqual({ status: 200, json: { status: 'reset' } });
    expect(await running).toMatchObject({ end: 'reset', state: 'lost', stdout: 'said\n' });
    expect(await client.status()).toMatchObject({ running: false, started_at: null });
    expect((await client.run('x')).error).toContain('NameError');
    await client.call('POST', '/interpreter/reset');
    expect(await client.call('POST', '/interpreter/reset')).toEqual({ status: 200, json: { status: 'reset' } });
  });

  it('ends with its use, and with it what it has started', async () => {
    await using client = await Client.open();
    await client.run(
      'secret = "of the first use"\nimport subprocess\nsubprocess.Popen(["sleep", "1000"])\nopen("/workspace/f", "w").close()',
    );
    const late = client.call('POST', '/interpreter/exec', { code: 'import time\ntime.sleep(100)', timeout: 100 });
    await eventually(
      async () => (await client.status())['busy'] === true,
      within(10_000),
      () => 'it is not busy',
    );
    expect((await client.call('POST', '/configure', { session_id: 'second' })).status).toBe(200);
    expect((await late).json).toMatchObject({ end: 'reset', state: 'lost' });
    expect(await client.status()).toMatchObject({ running: false });
    expect((await client.run('secret')).error).toContain('NameError');
    expect((await client.run('import os\nos.listdir("/workspace")')).result).toBe('[]');
  });

  it('survives the death of the process that holds the session', async () => {
    await using client = await Client.open();
    await client.run('x = [1, 2, 3]');
    const { started_at } = await client.status();
    await client.die();
    expect(await client.status()).toMatchObject({ running: true, started_at });
    expect(await client.run('x')).toMatchObject({ result: '[1, 2, 3]', fresh: false });
    for (let round = 0; round < 3; round += 1) {
      await client.die();
      expect(await client.run(`x.append(${round}); len(x)`)).toMatchObject({ result: String(4 + round) });
    }
  });

  it('that was in a call then is interrupted, and serves the next one', async () => {
    await using client = await Client.open();
    await client.run('x = 7');
    // Its connection breaks with the process.
    const broken = client.call('POST', '/interpreter/exec', {
      code: 'import os\nwhile True: os.write(1, b"z" * 1000)',
      timeout: 100,
    });
    broken.catch(() => undefined);
    await sleep(300);
    await client.die();
    expect(await client.run('x')).toMatchObject({ result: '7', stdout: '' });
    const stubborn = client.call('POST', '/interpreter/exec', {
      code: 'import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nopen("stubborn", "x")\nwhile True: pass',
      timeout: 100,
    });
    stubborn.catch(() => undefined);
    await client.made('stubborn');
    await client.die();
    expect(await client.run('1 + 1')).toMatchObject({ result: '2', fresh: true });
  });

  it('whose caller leaves is interrupted', async () => {
    await using client = await Client.open();
    await client.run('x = 1');
    const body = JSON.stringify({ code: 'import time\nx = 2\nopen("set", "x")\ntime.sleep(100)\nx = 3', timeout: 100 });
    const left = httpRequest(`${served.base}/interpreter/exec`, {
      method: 'POST',
      headers: {
        'x-sidecar-auth-token': client.authorization,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
      },
    });
    left.on('error', () => undefined);
    left.end(body);
    await client.made('set');
    expect(await client.status()).toMatchObject({ busy: true });
    left.destroy();
    expect((await client.run('x')).result).toBe('2');
  });

  it('is counted, and ends with its budget', async () => {
    await using client = await Client.open({ budget: { execs: 2, seconds: 0 } });
    await client.run('x = 1');
    await client.run('x');
    const { status, json } = await client.call('POST', '/interpreter/exec', { code: 'x' });
    expect([status, (json['detail'] as { error_type?: string }).error_type]).toEqual([403, 'session_budget_exceeded']);
    expect(await client.status()).toMatchObject({ running: false });
    await client.call('POST', '/configure', { session_id: 'anew' });
    expect((await client.run('1')).result).toBe('1');
  });

  it('needs a rule without patterns that lists it, where there is a list', async () => {
    const listed = (...commands: object[]) => ({
      allowedCommands: JSON.stringify({ enforce: 'text', commands }),
    });
    for (const commands of [[{ command: 'ls' }], [{ command: 'python3', args_allow: ['-V'] }]]) {
      await using client = await Client.open(listed(...commands));
      const { status, json } = await client.call('POST', '/interpreter/exec', { code: '1' });
      expect([status, (json['error'] as { code: string }).code]).toEqual([403, 'command_not_allowed']);
      expect(await client.status()).toMatchObject({ running: false });
    }
    await using client = await Client.open(listed({ command: 'python3' }));
    expect((await client.run('1 + 1')).result).toBe('2');
  });

  it('shows no secret that the session knows, in no field', async () => {
    await using client = await Client.open();
    const secret = 'correct horse battery staple 4711';
    await client.session.execs.run({ argv: ['true'], secret_env: { TOKEN: secret } });
    const code = `s = ${JSON.stringify(secret)}\nprint(s)\nclass H:\n  def __repr__(self): return s\n  def _repr_html_(self): return "<p>" + s\ndisplay(H())\nH()`;
    const shown = JSON.stringify(await client.run(code));
    expect(shown).not.toContain('horse');
    expect(shown.match(/TOKEN/g)?.length).toBeGreaterThanOrEqual(5);
    expect((await client.run(`raise ValueError(s)`)).error).not.toContain('horse');
  });

  it('that is idle for long is ended', async () => {
    await using client = await Client.open({}, { idleSeconds: 1 });
    await client.run('x = 1');
    await eventually(
      async () => (await client.status())['running'] === false,
      within(10_000),
      () => 'it still runs',
    );
    expect(await client.run('1 + 1')).toMatchObject({ result: '2', fresh: true });
  });
});
