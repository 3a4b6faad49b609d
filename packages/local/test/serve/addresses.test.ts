import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, test } from 'vitest';
import { formatAddress, isLoopback, parseAddress, refusePlainText, tryAddresses } from '../../src/serve/addresses.ts';

describe('an address', () => {
  test.each([
    ['127.0.0.1:9000', '127.0.0.1:9000'],
    ['127.0.0.1', '127.0.0.1:8090'],
    ['localhost:1', '127.0.0.1:1'],
    ['[::1]:9000', '[::1]:9000'],
    ['::1', '[::1]:8090'],
    ['[::]', '[::]:8090'],
    ['0.0.0.0:65535', '0.0.0.0:65535'],
  ])('%s is %s', (text, shown) => {
    expect(formatAddress(parseAddress(text, 8090))).toBe(shown);
  });

  test.each([
    '',
    ':8090',
    'example.org:80',
    '127.0.0.1:0',
    '127.0.0.1:65536',
    '127.0.0.1:80:80',
    '1.2.3:80',
    '[::1',
    '[1.2.3.4]:x',
  ])('%j is refused', (text) => {
    expect(() => parseAddress(text, 8090)).toThrow(expect.objectContaining({ code: 'invalid_request' }));
  });

  test.each([
    ['127.0.0.1', true],
    ['127.9.9.9', true],
    ['[::1]', true],
    ['[0:0:0:0:0:0:0:1]', true],
    ['0.0.0.0', false],
    ['[::]', false],
    ['192.0.2.1', false],
    ['[::ffff:127.0.0.1]', false],
  ])('%s is loopback: %s', (text, loopback) => {
    expect(isLoopback(parseAddress(text, 8090))).toBe(loopback);
  });
});

test('an address beyond this machine needs TLS', () => {
  expect(() => refusePlainText([parseAddress('127.0.0.1:1', 8090), parseAddress('[::]:2', 8090)])).toThrow(
    /\[::\]:2 can be reached/,
  );
  expect(() => refusePlainText([parseAddress('127.0.0.1:1', 8090)])).not.toThrow();
});

test('a port that is in use is named', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  try {
    await expect(tryAddresses([{ host: '127.0.0.1', port }])).rejects.toMatchObject({
      code: 'address_in_use',
      details: { address: `127.0.0.1:${port}` },
    });
  } finally {
    server.close();
    await once(server, 'close');
  }
  await expect(tryAddresses([{ host: '127.0.0.1', port }])).resolves.toBeUndefined();
  await expect(tryAddresses([{ host: '192.0.2.1', port }])).rejects.toMatchObject({ code: 'invalid_request' });
});
