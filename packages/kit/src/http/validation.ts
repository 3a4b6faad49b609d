import { validate } from '@boxkite/protocol';
import type { FastifySchema, FastifySchemaCompiler } from 'fastify';
import { z } from 'zod';

/** Checks parts of requests by their zod schemas. Errors: `invalid_request`, which never repeats the input. */
export const zodValidator: FastifySchemaCompiler<FastifySchema> = ({ schema }) => {
  if (!(schema instanceof z.ZodType)) throw new TypeError('a schema of a route is not one of zod');
  return (value) => {
    try {
      return { value: validate(schema, value) };
    } catch (error) {
      return { error: error instanceof Error ? error : new Error(String(error)) };
    }
  };
};
