/** An OpenAPI document of an app, made from the routes themselves. Nothing that serves loads this file. */
import swagger from '@fastify/swagger';
import type { FastifyInstance, RouteOptions } from 'fastify';
import { createJsonSchemaTransform, createJsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { type RequestHeader, requestHeaders } from './http/request-headers.ts';

/** A value of JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
/** An object of JSON. */
export type JsonObject = { [name: string]: Json };

/** What an app's document says beside its routes. */
export interface DocumentParts {
  readonly title: string;
  readonly description: string;
  /** How a request shows who it is from. */
  readonly security:
    | { readonly type: 'http'; readonly scheme: 'bearer'; readonly description: string }
    | { readonly type: 'apiKey'; readonly in: 'header'; readonly name: string; readonly description: string };
  /** Schemas with a name of their own in the document. */
  readonly named: Readonly<Record<string, z.ZodType>>;
  /** Which of them every answer has that is not a success. */
  readonly error: string;
}

/** What routes say beside their schemas. */
interface Beside {
  readonly headers: readonly RequestHeader[];
  readonly consumes: readonly string[];
  readonly produces: readonly string[];
}

/** The one route that asks for no key. */
const HEALTH = '/health';
const LICENSE = { name: 'Apache-2.0', identifier: 'Apache-2.0' } as const;
const BINARY = { type: 'string', format: 'binary' } as const;

/** Call it before an app has routes. What it returns makes the document, once the app is ready. */
export function describeRoutes(app: FastifyInstance, parts: DocumentParts): () => JsonObject {
  const routes = new Map<string, Beside>();
  const schemaRegistry = z.globalRegistry;
  for (const [id, schema] of Object.entries(parts.named)) {
    const known = schemaRegistry.get(schema);
    if (known?.id !== id) schemaRegistry.add(schema, { ...known, id });
  }
  app.addHook('onRoute', (route: RouteOptions) => {
    const { consumes = [], produces = [] } = route.schema ?? {};
    const { headers = [] } = route.config ?? {};
    if (consumes.length + produces.length + headers.length === 0) return;
    const path = route.url.replaceAll(/:([a-z]+)/g, '{$1}');
    for (const method of [route.method].flat()) {
      routes.set(`${method.toLowerCase()} ${path}`, { headers, consumes, produces });
    }
  });
  app.register(swagger, {
    exposeHeadRoutes: true,
    openapi: {
      openapi: '3.1.0',
      info: { title: parts.title, version: '1', description: parts.description, license: LICENSE },
      servers: [{ url: '/', description: 'The address that it listens at' }],
      components: { securitySchemes: { key: parts.security } },
      security: [{ key: [] }],
    },
    transform: createJsonSchemaTransform({ schemaRegistry }),
    transformObject: createJsonSchemaTransformObject({ schemaRegistry }),
  });
  return () => completed(JSON.parse(JSON.stringify(app.swagger())) as JsonObject, routes, parts.error);
}

/** Adds headers, bodies of bytes, the shape of errors, and which route needs no key. */
function completed(document: JsonObject, routes: ReadonlyMap<string, Beside>, error: string): JsonObject {
  for (const [path, operations] of Object.entries(member(document, 'paths'))) {
    for (const [method, value] of Object.entries(operations as JsonObject)) {
      const operation = value as JsonObject;
      const responses = member(operation, 'responses');
      operation['operationId'] = operationId(method, path);
      const { headers = [], consumes = [], produces = [] } = routes.get(`${method} ${path}`) ?? {};
      if (headers.length > 0) operation['parameters'] = [...list(operation, 'parameters'), ...headers.map(parameter)];
      if (consumes.length > 0) operation['requestBody'] = { content: binary(consumes) };
      if (produces.length > 0) responses['200'] = { description: 'The bytes', content: binary(produces) };
      responses['default'] = {
        description: 'What went wrong',
        content: { 'application/json': { schema: { $ref: `#/components/schemas/${error}` } } },
      };
      if (path === HEALTH) operation['security'] = [];
      operation['responses'] = responses;
    }
  }
  dropUnused(document);
  open(document);
  return document;
}

/** A name of its own for each route, from which generators name functions: `post /v1/sandboxes/{id}/stop` is `postSandboxesIdStop`. */
function operationId(method: string, path: string): string {
  const words = path.replace(/^\/v1(?=\/)/, '').match(/[a-z0-9]+/gi) ?? [];
  return [method, ...words.map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))].join('');
}

/** Unknown fields of requests are ignored, and answers may gain fields. */
function open(value: Json): void {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value) && value['additionalProperties'] === false) delete value['additionalProperties'];
  for (const part of Object.values(value)) open(part);
}

/** Every named schema comes in a form for requests too, which most have no use for. */
function dropUnused(document: JsonObject): void {
  const schemas = member(member(document, 'components'), 'schemas');
  const unused = (): string[] => {
    const text = JSON.stringify(document);
    return Object.keys(schemas).filter((name) => !text.includes(`"#/components/schemas/${name}"`));
  };
  for (let names = unused(); names.length > 0; names = unused()) for (const name of names) delete schemas[name];
}

function member(of: JsonObject, name: string): JsonObject {
  const value = of[name];
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
}

function list(of: JsonObject, name: string): readonly Json[] {
  const value = of[name];
  return Array.isArray(value) ? value : [];
}

function parameter(name: RequestHeader): JsonObject {
  const written = name.replaceAll(/(?<![a-z])[a-z]/g, (letter) => letter.toUpperCase());
  return {
    name: written,
    in: 'header',
    required: false,
    description: requestHeaders[name],
    schema: { type: 'string' },
  };
}

function binary(types: readonly string[]): JsonObject {
  return Object.fromEntries(types.map((type) => [type, { schema: { ...BINARY } }]));
}
