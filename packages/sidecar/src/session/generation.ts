/** Generations of a sandbox that is used again: which one comes next, and the removal of what the last one left. */
import { createHash } from 'node:crypto';
import { BoxkiteError } from '@boxkite/protocol';
import { type RunnerAccess, RunnerFiles, type SandboxId } from '@boxkite/runner-client';
import type { Configuration, Configured } from './configuration.ts';

/** A directory that stays, as each use finds it. */
interface Root {
  readonly path: string;
  readonly mode: number;
}

/** Roots that a command can write to, and those that only provisioning can. */
const OWN_ROOTS: readonly Root[] = [
  { path: '/workspace', mode: 0o755 },
  { path: '/mnt/user-data/outputs', mode: 0o755 },
  { path: '/tmp', mode: 0o1777 },
];
const UPLOADS: Root = { path: '/mnt/user-data/uploads', mode: 0o755 };
const SKILLS: Root = { path: '/mnt/skills', mode: 0o755 };
/** Of one configuration: the supervisor keeps it, with what parts of the session keep. */
const MOST_BYTES = 256 * 1024;
/** Passes over a root until nothing is found in it; a cancelled write may come to its end in the first one. */
const MOST_PASSES = 5;

/** The generation to be, or `before` itself where it is the same one again. */
export function nextGeneration(
  before: Configured | null,
  configuration: Configuration,
  wanted: number | undefined,
): Configured {
  const present = before?.generation ?? 0;
  const generation = wanted ?? present + 1;
  const text = JSON.stringify(configuration);
  if (Buffer.byteLength(text) > MOST_BYTES) {
    throw new BoxkiteError('payload_too_large', `a configuration has at most ${MOST_BYTES} bytes`, {
      hint: 'Grant fewer secrets, or name fewer hosts and files.',
    });
  }
  const digest = createHash('sha256').update(text).digest('hex');
  if (before !== null && generation === present) {
    if (digest === before.digest) return before;
    throw new BoxkiteError('conflict', `generation ${generation} was configured with another body`);
  }
  if (generation < present) {
    throw new BoxkiteError('generation_gone', `the present generation is ${present}`, {
      details: { generation: present },
    });
  }
  return { ...configuration, generation, digest };
}

/** What a call is told that was begun in a use which has ended. */
export function generationGone(): BoxkiteError {
  return new BoxkiteError('generation_gone', 'the sandbox was configured anew meanwhile');
}

/** Removes all files; resolves when none is left. Nothing of the sandbox runs meanwhile. */
export async function wipe(
  runner: RunnerAccess,
  sandbox: SandboxId,
  what: { readonly skills: boolean },
): Promise<void> {
  const own = new RunnerFiles(runner, sandbox);
  const provision = new RunnerFiles(runner, sandbox, 'provision');
  try {
    for (const root of OWN_ROOTS) await empty(own, root);
    await empty(provision, UPLOADS);
    if (what.skills) await empty(provision, SKILLS);
  } finally {
    own.close();
    provision.close();
  }
}

/** Names are bytes: a command may choose what is no text. */
async function empty(files: RunnerFiles, { path: root, mode }: Root): Promise<void> {
  // Whoever owns a root may have closed it, or left something on it itself.
  await files.agent(root, (client) => client.chmod(root, mode, { reset: true }));
  let clean = 0;
  for (let pass = 0; pass < MOST_PASSES && clean < 2; pass += 1) {
    const paths: Uint8Array[] = [];
    for await (const { bytes } of files.agentStream(root, (client) => client.list(root))) {
      paths.push(Buffer.concat([Buffer.from(`${root}/`), bytes]));
    }
    clean = paths.length === 0 ? clean + 1 : 0;
    for (const path of paths) await removeIfThere(files, root, path);
  }
  if (clean === 0) throw new BoxkiteError('io_error', `${root} does not become empty`);
}

async function removeIfThere(files: RunnerFiles, root: string, path: Uint8Array): Promise<void> {
  try {
    await files.agent(root, (client) => client.remove(path, { recursive: true }));
  } catch (error) {
    if (!(error instanceof BoxkiteError) || error.code !== 'file_not_found') throw error;
  }
}
