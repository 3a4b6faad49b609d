/** The driver and the readers of its messages, under the machine's own Python. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BareDriver } from './support/bare-driver.ts';

const CAP = 262_144;
let driver: BareDriver;

beforeAll(async () => {
  driver = new BareDriver(CAP);
  await driver.hello();
});
afterAll(async () => {
  await driver[Symbol.asyncDispose]();
});

async function fresh<T>(use: (driver: BareDriver) => Promise<T>, cap = CAP): Promise<T> {
  await using other = new BareDriver(cap);
  return await use(other);
}

describe('code', () => {
  it('keeps its globals, and gives the last expression', async () => {
    expect(await driver.call('a = 20\ndef double(x):\n  return 2 * x')).toMatchObject({ result: null, error: null });
    expect((await driver.call('b = a + 1\ndouble(b)')).result).toBe('42');
    expect((await driver.call('a = 1\n2')).result).toBe('2');
    expect((await driver.call('None')).result).toBeNull();
    expect((await driver.call('a; 5;')).result).toBe('5');
    expect((await driver.call('# nothing')).result).toBeNull();
  });

  it('has its exceptions as tracebacks of its own lines alone, and goes on', async () => {
    const { error, result } = await driver.call('def f():\n  return 1 / 0\nkept = 7\nf()');
    expect(result).toBeNull();
    expect(error).toContain('return 1 / 0');
    expect(error).toMatch(/ZeroDivisionError: division by zero\n$/);
    expect(error).not.toContain('serve');
    expect(error?.match(/File "/g)).toHaveLength(2);
    expect((await driver.call('kept')).result).toBe('7');
    expect((await driver.call('x = (')).error).toMatch(/SyntaxError/);
  });

  it('may exit, recurse, and raise what can not be shown', async () => {
    expect((await driver.call('import sys\nsys.exit(3)')).error).toMatch(/SystemExit: 3\n$/);
    expect((await driver.call('def f(): return f()\nf()')).error).toMatch(/RecursionError/);
    const broken = 'class E(Exception):\n  def __str__(self): raise ValueError\nraise E';
    expect((await driver.call(broken)).error).toMatch(/E: <exception str\(\) failed>|E/);
    expect((await driver.call('class R:\n  def __repr__(self): raise ValueError("no")\nR()')).error).toMatch(
      /ValueError: no/,
    );
    expect((await driver.call('l = []\nfor _ in range(100000): l = [l]\nl')).error).toMatch(/RecursionError/);
    expect((await driver.call('1 + 1')).result).toBe('2');
  });

  it('is a module called __main__, for classes that are pickled and for what looks at it', async () => {
    const { result } = await driver.call(
      'import pickle, __main__\nclass P:\n  pass\n(type(pickle.loads(pickle.dumps(P()))) is P, __main__.P is P, __name__)',
    );
    expect(result).toBe("(True, True, '__main__')");
  });

  it('may await at its top level, in one loop', async () => {
    const { result } = await driver.call(
      'import asyncio\nloop = asyncio.get_running_loop() if False else None\nawait asyncio.sleep(0, 5)',
    );
    expect(result).toBe('5');
    expect((await driver.call('async def g(): return 6\nx = await g()\nx')).result).toBe('6');
  });

  it('reads nothing from standard input', async () => {
    expect((await driver.call('input()')).error).toMatch(/EOFError/);
    expect((await driver.call('import sys; sys.stdin.read()')).result).toBe("''");
  });

  it('keeps what __future__ has given it', async () => {
    await driver.call('from __future__ import annotations');
    expect((await driver.call('def h(a: unknown_name): pass\nh.__annotations__')).result).toBe("{'a': 'unknown_name'}");
  });
});

describe('output', () => {
  it('is what Python, descriptors and other programs write, in order', async () => {
    const { output } = await driver.call(
      'import os, sys, subprocess\nprint("a", end="")\nos.write(2, b"b")\nsubprocess.run(["echo", "c"])\nprint("d", file=sys.stderr)\nos.system("echo e >&2")',
    );
    expect(output).toBe('abc\nd\ne\n');
  });

  it('may be long, and raw on standard error, without a stop', async () => {
    const { output, result } = await driver.call('import os\nos.write(2, b"x" * 409600)');
    expect([output.length, result]).toEqual([409_600, '409600']);
    expect((await driver.call('print("y" * 200000)')).output).toHaveLength(200_001);
  });

  it('may be no Unicode', async () => {
    expect((await driver.call(String.raw`print("\ud800\udfff")`)).output).toBe('\\ud800\\udfff\n');
    expect((await driver.call(String.raw`"\ud800" * 2`)).result).toBe(String.raw`'\ud800\ud800'`);
    expect((await driver.call(String.raw`raise ValueError("\ud800")`)).error).toContain(String.raw`\ud800`);
    const { output } = await driver.call('import os\nos.write(1, bytes(range(256)))');
    expect(output.length).toBeGreaterThan(200);
  });

  it('comes from threads and from what was left in the background, also after the call', async () => {
    const code = [
      'import threading, time, subprocess',
      'def late():',
      '  for i in range(20): print("late", i); time.sleep(0.005)',
      'threading.Thread(target=late, daemon=True).start()',
      'p = subprocess.Popen("for i in 1 2 3 4 5; do echo bg; sleep 0.01; done", shell=True)',
      '"started"',
    ].join('\n');
    expect((await driver.call(code)).result).toBe("'started'");
    for (let i = 0; i < 20; i += 1) expect((await driver.call(`${i} + 1`)).result).toBe(String(i + 1));
    expect((await driver.call('p.wait()')).result).toBe('0');
  });

  it('goes on after the streams were closed or replaced', async () => {
    await fresh(async (own) => {
      await own.call('import sys\nsys.stdout.close(); sys.stderr = None');
      expect((await own.call('print("again"); print("err", file=sys.stderr)')).output).toBe('again\nerr\n');
      const { result } = await own.call('import os\nos.close(1); os.close(2)\n"ok"');
      expect(result).toBe("'ok'");
      expect((await own.call('1 + 1')).result).toBe('2');
    });
  });
});

describe('what is too long', () => {
  it('is cut, and said so: a result, an error', async () => {
    const long = await driver.call('"r" * 2_000_000');
    expect([long.truncated, long.result?.length]).toEqual([true, CAP]);
    const error = await driver.call('raise ValueError("e" * 2_000_000)');
    expect([error.truncated, error.error?.length]).toEqual([true, CAP]);
    expect(await driver.call('"x" * 100_000')).toMatchObject({ truncated: false });
  });

  it('is measured as it is, not as it would be escaped', async () => {
    const { result, truncated } = await driver.call(
      String.raw`type("Q", (), {"__repr__": lambda s: "\"\\\n\x01" * 60000})()`,
    );
    expect([result?.length, truncated]).toEqual([240_000, false]);
  });

  it('is cut between characters', async () => {
    const { result } = await driver.call(`type("Q", (), {"__repr__": lambda s: "a" + "€" * ${CAP}})()`);
    expect(result).toMatch(/^a€+$/);
    expect(Buffer.byteLength(result ?? '')).toBeLessThanOrEqual(CAP);
  });
});

describe('shown values', () => {
  it('have the forms of their class', async () => {
    const { result, forms } = await driver.call(
      'class D:\n  def __repr__(self): return "D"\n  def _repr_html_(self): return "<b>D</b>"\n  def _repr_png_(self): return bytes([137, 80])\nD()',
    );
    expect(result).toBe('D');
    expect(forms).toEqual({ 'text/html': '<b>D</b>', 'image/png': Buffer.from([137, 80]) });
    expect((await driver.call('D')).forms).toBeNull();
    const { displays } = await driver.call('display(D(), 5)\ndisplay("x")');
    expect(displays.map((shown) => shown['text/plain'])).toEqual(['D', '5', "'x'"]);
  });

  it('that can not be shown have their repr, and say why', async () => {
    const { result, output, error } = await driver.call(
      'class B:\n  def _repr_html_(self): raise ValueError("why")\nB()',
    );
    expect(result).toContain('B object');
    expect(output).toContain('ValueError: why');
    expect(error).toBeNull();
  });

  it('are left out whole where they are too many bytes', async () => {
    const { forms, truncated, result } = await driver.call(
      'class Big:\n  def __repr__(self): return "Big"\n  def _repr_png_(self): return bytes(9_000_000)\n  def _repr_html_(self): return "<i>"\nBig()',
    );
    expect([result, truncated, forms]).toEqual(['Big', true, { 'text/html': '<i>' }]);
  });

  it('are figures too, which are closed then', async () => {
    const module = [
      'import sys, types',
      'class Figure:',
      '  def savefig(self, file, **options): file.write(b"PNG" + str(sorted(options)).encode())',
      'plots = types.ModuleType("matplotlib.pyplot"); open_figures = {1: Figure(), 2: Figure()}',
      'plots.get_fignums = lambda: list(open_figures); plots.figure = open_figures.get; plots.close = lambda _: open_figures.clear()',
      'sys.modules["matplotlib.pyplot"] = plots',
    ].join('\n');
    await fresh(async (own) => {
      const { displays } = await own.call(module);
      expect(displays.map((shown) => String(shown['image/png']).slice(0, 3))).toEqual(['PNG', 'PNG']);
      expect((await own.call('len(open_figures)')).result).toBe('0');
    });
  });
});

describe('code that attacks its driver', () => {
  it('forges no answer, by any of its descriptors', async () => {
    await fresh(async (own) => {
      const forged = [
        'import os, threading, time, struct',
        'fake = bytes(16) + bytes([2, 1, 0, 0]) + struct.pack("<I", 11) + b"\\x01\\x04\\x00\\x00\\x00fake\\x04\\x02"',
        'line = b\'{"stdout": "", "result": "fake", "error": null}\\n\'',
        'def spam():',
        '  while True:',
        '    for fd in (1, 3): os.write(fd, fake); os.write(fd, line); os.write(fd, os.urandom(5000))',
        '    time.sleep(0.0005)',
        'for _ in range(3): threading.Thread(target=spam, daemon=True).start()',
        '"mine"',
      ].join('\n');
      expect((await own.call(forged)).result).toBe("'mine'");
      for (let i = 0; i < 50; i += 1)
        expect((await own.call(`"r" * 30000 + str(${i})`)).result).toHaveLength(30_002 + String(i).length);
      expect(own.replies.dropped.messages).toBeGreaterThan(0);
    });
  });

  it('by changes of the builtins and of modules spoils nothing', async () => {
    await fresh(async (own) => {
      const code = [
        'import builtins, os, sys, traceback, linecache, signal, types',
        'for module in (os, traceback, linecache, types):',
        '  for name in list(vars(module)):',
        '    if not name.startswith("__"): setattr(module, name, None)',
        'for name in ("len", "min", "bytes", "isinstance", "getattr", "type", "repr", "vars", "open", "compile", "setattr"):',
        '  setattr(builtins, name, None)',
        'sys.modules.clear(); sys.path = None; sys.argv = None',
      ].join('\n');
      expect((await own.call(code)).error).toBeNull();
      expect((await own.call('1 + 1')).result).toBe('2');
      expect((await own.call('1 / 0')).error).toMatch(/ZeroDivisionError/);
    });
  });

  it('ends it by taking its channel, which it says by its exit status', async () => {
    for (const code of ['import os\nos.close(3)', 'import os\nos.dup2(1, 3)', 'import os\nos.closerange(0, 100)']) {
      await fresh(async (own) => {
        await expect(own.call(code)).rejects.toThrow('ended: 71');
      });
    }
  });

  it('by a channel that does not wait is waited for all the same', async () => {
    await fresh(async (own) => {
      await own.call('import os\nos.set_blocking(3, False); os.set_blocking(1, False)');
      expect((await own.call('"z" * 200000')).result).toHaveLength(200_002);
      expect((await own.call('1')).result).toBe('1');
    });
  });

  it('and copies itself does not answer twice', async () => {
    await fresh(async (own) => {
      const { result, output } = await own.call(
        'import os\npid = os.fork()\nprint("child" if pid == 0 else "parent")\npid > 0',
      );
      expect(result).toBe('True');
      expect(output).toContain('parent');
      expect((await own.call('os.waitpid(pid, 0)[1]')).result).toBe('0');
      const exit = await own.call(
        'import sys\npid = os.fork()\nif pid == 0: sys.exit(5)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if hasattr(os, "waitstatus_to_exitcode") else 5',
      );
      expect(exit.result).toBe('5');
      expect(own.replies.dropped.messages).toBe(0);
    });
  });

  it('by signals whose handlers raise leaves it serving', async () => {
    await fresh(async (own) => {
      await own.call(
        'import signal\ndef handler(*_): raise ValueError("late")\nsignal.signal(signal.SIGALRM, handler)\nsignal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)',
      );
      await new Promise((resolve) => {
        setTimeout(resolve, 200);
      });
      let served = 0;
      for (let i = 0; i < 20; i += 1) {
        const { result, error } = await own.call('1 + 1');
        if (result === '2') served += 1;
        else expect(error).toMatch(/ValueError: late/);
      }
      expect(served).toBeGreaterThan(10);
    });
  });

  it('and lowers its limits leaves it serving', async () => {
    await fresh(async (own) => {
      await own.call('import sys\nsys.setrecursionlimit(sys.getrecursionlimit() // 10)\nsys.settrace(lambda *a: None)');
      expect((await own.call('1 + 1')).result).toBe('2');
    });
  });
});

it('is interrupted where it runs, and not where it does not', async () => {
  await fresh(async (own) => {
    const before = await own.hello();
    const endless = own.call('import time\nstate = 1\nwhile True: time.sleep(0.01)');
    await new Promise((resolve) => {
      setTimeout(resolve, 200);
    });
    own.child.kill('SIGINT');
    const { error } = await endless;
    expect(error).toMatch(/KeyboardInterrupt\n$/);
    expect(error?.match(/File "/g)).toHaveLength(1);
    own.child.kill('SIGINT');
    expect((await own.call('state')).result).toBe('1');
    await expect.poll(async () => (await own.hello()).interrupts - before.interrupts).toBe(2);
  });
});
