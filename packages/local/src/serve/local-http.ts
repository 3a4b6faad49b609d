/** Small requests to the daemon of this machine over its Unix socket, with its own key. */
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync } from 'node:fs';
import { request } from 'node:http';
import { dirname } from 'node:path';
import type { DaemonPlaces } from './places.ts';

const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
const KEY = /^bxk_live_[\w-]{43}$/;

/** An answer with a JSON body. */
export interface JsonAnswer {
  readonly status: number;
  readonly body: unknown;
}

/**
 * The key of the local administrator. Its directory is Node's, which is less trusted than a caller that is root: no link
 * is followed, and nothing but a key is sent.
 */
export function readLocalKey(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = fstatSync(file);
    const key = found.isFile() && found.size < 256 ? readFileSync(file, 'utf8').trim() : '';
    if (found.uid !== lstatSync(dirname(path)).uid || !KEY.test(key)) throw new TypeError(`${path} holds no key`);
    return key;
  } finally {
    closeSync(file);
  }
}

/** Sends a GET. Errors: of the connection, or what the signal says. */
export function getJson(
  places: DaemonPlaces,
  path: string,
  key: string | null,
  signal: AbortSignal,
): Promise<JsonAnswer> {
  return new Promise((resolve, reject) => {
    const headers = key === null ? {} : { authorization: `Bearer ${key}` };
    const call = request({ socketPath: places.socket, path, headers, signal, agent: false }, (answer) => {
      const chunks: Buffer[] = [];
      let length = 0;
      answer.on('data', (chunk: Buffer) => {
        length += chunk.length;
        if (length > MAX_ANSWER_BYTES) answer.destroy(new RangeError('the answer is too long'));
        else chunks.push(chunk);
      });
      answer.once('error', reject);
      answer.once('end', () => {
        try {
          resolve({ status: answer.statusCode ?? 0, body: JSON.parse(Buffer.concat(chunks).toString('utf8')) });
        } catch (error) {
          reject(new TypeError('the answer is no JSON', { cause: error }));
        }
      });
    });
    call.once('error', reject);
    call.end();
  });
}
