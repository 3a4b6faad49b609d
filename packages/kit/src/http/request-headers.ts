/** Headers of requests that change what a call does. */
import { BoxkiteError } from '@boxkite/protocol';
import type { FastifyInstance } from 'fastify';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Those that the route looks at. */
    readonly headers?: readonly RequestHeader[];
  }
}

/** By name: what each one says. */
export const requestHeaders = {
  'if-match': 'The ETag that the file has to have: its SHA-256 in lower-case hexadecimal, in quotes.',
  'if-none-match': '`*`: nothing may be at the path.',
  'idempotency-key': 'Of 1 to 255 characters: the call is carried out once, and its answer given again for a day.',
  range: 'One range of bytes.',
} as const satisfies Readonly<Record<string, string>>;

/** The name of such a header, in lower case. */
export type RequestHeader = keyof typeof requestHeaders;

/** Those of a call that replaces a file only where it is what the caller says. */
export const fileConditions = ['if-match', 'if-none-match'] as const satisfies readonly RequestHeader[];

/** A change under a condition that the route does not look at would be made without it. */
export function refuseUnknownConditions(app: FastifyInstance): void {
  // Behind the look at the key, before the body.
  app.addHook('preParsing', (request, _reply, _payload, done) => {
    const { method, headers, routeOptions } = request;
    if (method === 'GET' || method === 'HEAD' || method === 'OPTIONS' || request.is404) return done();
    for (const name of fileConditions) {
      if (headers[name] === undefined || routeOptions.config.headers?.includes(name) === true) continue;
      return done(new BoxkiteError('invalid_request', `this call takes no ${name}`, { details: { field: name } }));
    }
    done();
  });
}
