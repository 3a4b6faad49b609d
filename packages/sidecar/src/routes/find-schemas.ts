/** Requests that look for files. */
import { numeric } from '@boxkite/protocol';
import { z } from 'zod';
import { clean } from './schema-parts.ts';

const base = z.string().max(16_384).nullish().describe('Default /workspace');
const limit = numeric.pipe(z.number().int().min(1).max(100_000)).nullish().describe('A page of so many. Default: all');
const cursor = z.string().min(1).max(8192).nullish().describe('next_cursor of the page before');

/** Body of `POST /ls`. */
export const lsBody = z.object({ path: base, limit, cursor });

/** Body of `POST /glob`. */
export const globBody = z.object({
  pattern: clean.max(16_384).describe('Matched at any depth; `*` stays within a name, `**` crosses directories'),
  path: base,
  limit,
  cursor,
});

/** Body of `POST /grep`. */
export const grepBody = z.object({
  pattern: clean.max(65_536).describe('A regular expression of Rust'),
  path: base,
  glob: clean.max(16_384).nullish().describe('Only files with such a path or name; `*` crosses directories'),
  max_matches: numeric.pipe(z.number().int()).nullish().describe('Default 500, at least 1, at most 5000'),
});

/** Body of `POST /watch`. */
export const watchBody = z.object({
  path: base,
  timeout_seconds: numeric.nullish().describe('Default 10, at least 0.1, at most 60'),
});
