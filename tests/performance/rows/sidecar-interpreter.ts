/** Python code by `POST /interpreter/exec` of `boxkite sidecar`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { need } from '../bare.ts';
import { compare, type Metric } from '../comparison.ts';
import { amountOfCalls } from '../effort.ts';
import { atPercentile, callByCall } from '../rounds.ts';
import type { Row } from '../row.ts';
import { connectionTo, withSidecar } from '../sidecars.ts';

const PYTHON = '/usr/bin/python3';
const LOOP = fileURLToPath(new URL('../programs/code-loop.py', import.meta.url));
const CODE = '1 + 1';
const P50: Metric = { name: 'p50', unit: 'ms', better: 'lower', promise: 3 };

/** The loop with nothing around it, and what it is asked by. */
function bareLoop() {
  const child = spawn(PYTHON, ['-I', LOOP], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdout.setEncoding('utf8');
  return {
    ask: async (): Promise<void> => {
      const answered = once(child.stdout, 'data');
      child.stdin.write(`${JSON.stringify({ code: CODE })}\n`);
      const [line] = (await answered) as [string];
      if ((JSON.parse(line) as { readonly result: string }).result !== '2') throw new TypeError(`answered ${line}`);
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      child.stdin.end();
      await once(child, 'close');
    },
  };
}

/** A call to an interpreter that is there. */
export const sidecarInterpreter: Row = {
  name: 'sidecar-interpreter',
  source: 'tests/performance/rows/sidecar-interpreter.ts',
  what: 'POST /interpreter/exec of an expression, keep-alive, the interpreter being there',
  baseline: 'a round trip over pipes to a bare python3 loop that evaluates the same expression',
  run: async ({ rounds, scale }) => {
    need(PYTHON, 'apt-get install python3');
    return await withSidecar(async (sidecar) => {
      using connection = connectionTo(sidecar);
      await using loop = bareLoop();
      const subject = async (): Promise<void> => {
        const body = { code: CODE };
        const answer = (await connection.call('POST', '/interpreter/exec', body)).toString();
        if ((JSON.parse(answer) as { readonly result: string }).result !== '2') throw new TypeError(answer);
      };
      const samples = await callByCall(rounds, amountOfCalls(500, scale), subject, loop.ask);
      return [compare(P50, atPercentile(samples, 0.5))];
    });
  },
};
