/** What a session shows of secrets: in records, in errors, in files that are shown. */
import { describe, expect, it, vi } from 'vitest';
import { SessionRegistry } from '../src/session/session-registry.ts';
import { createSidecar } from '../src/sidecar.ts';
import type { Write } from './support/model-runner.ts';
import { Host, hear } from './support/sessions.ts';

const TOKEN = `ghp_${'aB3'.repeat(12)}`;
const KEY = 'MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7';
const PASSWORD = 'correct-h0rse';
const PLANTED = [
  `first ${TOKEN} line\n`,
  `export API_KEY="${PASSWORD}"; curl -H "Authorization: Bearer ${PASSWORD}1" https://u:${PASSWORD}2@a.example/x\n`,
  `-----BEGIN PRIVATE KEY-----\n${KEY}\n-----END PRIVATE KEY-----\n`,
  'password: hunter the word\n',
  `last ${TOKEN}`,
].join('');
const SHOWN = [
  'first [redacted:github-token] line\n',
  'export API_KEY="[redacted:password]"; curl -H "Authorization: Bearer [redacted:authorization]" ',
  'https://u:[redacted:url-password]@a.example/x\n',
  '[redacted:private-key]\n',
  'password: hunter the word\n',
  'last [redacted:github-token]',
].join('');

function cut(text: string, length: number): Write[] {
  const writes: Write[] = [];
  for (let at = 0; at < text.length; at += length) {
    writes.push({ stream: 'stdout', data: Buffer.from(text.slice(at, at + length)) });
  }
  return writes;
}

describe('a record', () => {
  it.each([1, 7, 64, 1000])('in writes of %i bytes has no credential at any offset', async (length) => {
    await using host = await Host.start({ plan: cut(PLANTED, length) }, ['plan']);
    host.runner.eventBytes = length;
    const id = await host.start('plan');
    const check = async (whole: string): Promise<void> => {
      for (let offset = 0; offset <= whole.length; offset += 1) {
        const { text } = await hear(host.session, id, offset, false);
        expect(text).toBe(whole.slice(offset));
      }
    };
    // The last token may go on.
    const shown = SHOWN.slice(0, -'[redacted:github-token]'.length);
    await vi.waitFor(async () => {
      expect((await host.session.execs.get(id)).stdout_bytes).toBe(shown.length);
    }, 20_000);
    await check(shown);
    // The next process of the session has what this one has shown, and goes on behind it.
    await host.session.close();
    await host.open();
    host.runner.finish(1n);
    await vi.waitFor(async () => expect((await host.session.execs.get(id)).state).toBe('ended'), 20_000);
    await check(SHOWN);
    await host.session.close();
    await host.open();
    await check(SHOWN);
  });

  it('says of a private key that begins in it nothing more until it ends', async () => {
    const lines = `${KEY}\n`.repeat(5000);
    const text = `a\n-----BEGIN RSA PRIVATE KEY-----\n${lines}-----END RSA PRIVATE KEY-----\nb\n`;
    await using host = await Host.start({ plan: cut(text, 50_000) });
    const { stdout } = await host.session.execs.run({ argv: ['sh', 'plan'] });
    expect(Buffer.from(stdout).toString()).toBe('a\n[redacted:private-key]\nb\n');
  });
});

describe('texts of a session', () => {
  it('have known values hidden everywhere, credentials in output alone', async () => {
    await using host = await Host.start({});
    await host.session.execs.run({ argv: ['sh', 'x'], secret_env: { TOKEN: 'a known value' } });
    const { redaction } = host.session;
    const text = `a known value, ${TOKEN}, password="${PASSWORD}"`;
    expect(redaction.output(text)).toBe('[redacted:TOKEN], [redacted:github-token], password="[redacted:password]"');
    expect(redaction.shownLine(text, false)).toBe(`[redacted:TOKEN], ${TOKEN}, password="${PASSWORD}"`);
    const stream = redaction.stream();
    const parts = [stream.push(Buffer.from('x a known ')), stream.push(Buffer.from(`value ${TOKEN}`)), stream.flush()];
    expect(Buffer.concat(parts).toString()).toBe('x [redacted:TOKEN] [redacted:github-token]');
  });

  it('have each line of a known value hidden where it is shown alone, but for what says nothing about it', async () => {
    await using host = await Host.start({});
    const lines = Array.from({ length: 300 }, (_, at) => `${at} ${'Zm9vYmFyYmF6cXV4Cg'.slice(at % 5)} ${at * at}`);
    const key = ['-----BEGIN OPENSSH KEY-----', ...lines, 'short', '-----END OPENSSH KEY-----'].join('\r\n');
    await host.session.execs.run({ argv: ['sh', 'x'], secret_env: { SSH_KEY: `${key}\n`, ONE: 'of-one-line' } });
    const { redaction } = host.session;
    for (const [at, line] of lines.entries()) {
      const name = `[redacted:SSH_KEY.line-${at + 2}]`;
      expect(redaction.shownLine(`  "${line}",`, false)).toBe(`  "${name}",`);
      expect(redaction.shownLine(`a ${line} and ${line.slice(0, -1)}`, true)).toBe(`a ${name} and `);
    }
    const rest = 'short -----BEGIN OPENSSH KEY-----';
    expect(redaction.shownLine(rest, false)).toBe(rest);
    expect(redaction.shownLine('is of-one-line', false)).toBe('is [redacted:ONE]');
  });

  it('are errors too', async () => {
    await using host = await Host.start({});
    await host.session.execs.run({ argv: ['sh', 'x'], secret_env: { TOKEN: 'known-value' } });
    const registry = new SessionRegistry();
    registry.add('a token', host.session);
    const app = createSidecar(registry, { closing: new AbortController().signal });
    const list = JSON.stringify({ enforce: 'text', commands: ['echo'] });
    await host.session.close();
    host.more = { allowedCommands: list };
    registry.remove('a token');
    registry.add('a token', await host.open());
    for (const [program, shown] of [
      ['known-value', '[redacted:TOKEN]'],
      [TOKEN, '[redacted:github-token]'],
    ] as const) {
      const answer = await app.inject({
        method: 'POST',
        url: '/execs',
        headers: { 'x-sidecar-auth-token': 'a token' },
        payload: { argv: [program] },
      });
      expect(answer.statusCode).toBe(403);
      expect(answer.json<{ detail: string }>().detail).toContain(shown);
      expect(answer.body).not.toContain(program);
    }
    await app.close();
  });
});
