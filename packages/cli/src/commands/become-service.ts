/** How `boxkite serve` and `boxkite sidecar` become what they have prepared. */
import { mistake } from '../options.ts';

const PATIENCE_MS = 3000;

/** Says after a moment that work goes on: root's services copy their programs first. */
export async function patiently<T>(call: { say(text: string): void }, aloud: boolean, work: Promise<T>): Promise<T> {
  const timer = aloud ? setTimeout(() => call.say('still preparing the programs'), PATIENCE_MS) : undefined;
  return work.finally(() => clearTimeout(timer));
}

/** Replaces this process; nothing of its environment goes along. */
export function become(launch: {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}): never {
  process.execve?.(launch.program, [...launch.args], { ...launch.env });
  throw new Error('this Node.js can not replace its process');
}

/** The pair that two options name. Errors: `invalid_request` for one without the other. */
export function tlsPair(certificate: string | undefined, key: string | undefined) {
  if (certificate !== undefined && key !== undefined) return { certificate, key };
  if (certificate === undefined && key === undefined) return undefined;
  throw mistake('a certificate and its key belong together', 'Give both --tls-cert and --tls-key, or neither.');
}
