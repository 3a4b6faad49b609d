/** Sandboxes on this Linux machine, for callers that choose the provider themselves. */

export type { LocalOptions } from '@boxkite/local';
export { createLocalProvider, measureTree, packTree } from '@boxkite/local';
