/** The client of servers. It is loaded through this module alone, so that a bundle keeps the rest of the SDK apart from it. */
export { findServer, Sandbox } from 'boxkite';
