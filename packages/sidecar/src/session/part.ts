/** What belongs to the present use of a sandbox beside its execs and files. */
import type { Effective } from '@boxkite/protocol';
import type { RunnerAccess, RunnerFiles, SandboxId } from '@boxkite/runner-client';
import type { ObjectStore } from '@boxkite/storage';
import type { SidecarSettings } from '../settings.ts';
import type { Configuration, Configured } from './configuration.ts';
import type { CommandGate } from './gate.ts';
import type { Redaction } from './redaction.ts';
import type { SessionExecs } from './session-execs.ts';
import type { StateBlob } from './session-state.ts';

/** One such thing, and what the session tells it. */
export interface SessionPart {
  /** What the next process of this session has to know: JSON, small. Asked at each save. */
  kept?(): unknown;
  /** Refuses a configuration, before anything of the present use is ended. */
  check?(configuration: Configuration): Promise<void> | void;
  /** The use ends. Its execs are dead; nothing else of it is left when this resolves. */
  reset(): Promise<void> | void;
  /** The budget of the use is spent: nothing that this part runs is alive when this resolves, nor what it keeps for running. */
  spent?(): Promise<void> | void;
  /** A new use has begun, and is not answered yet. */
  begin?(configured: Configured): Promise<void>;
  /** This process stops, or the sandbox is gone. Nothing is awaited that may take long. */
  close?(): Promise<void> | void;
}

/** What a part is made of. */
export interface SessionCore {
  readonly id: string;
  readonly sandbox: SandboxId;
  readonly runner: RunnerAccess;
  /** What was measured of the sandbox when it was opened. */
  readonly effective: Effective;
  readonly settings: SidecarSettings;
  /** Private, of this sandbox alone; may not be there yet. */
  readonly directory: string;
  /** Where files are kept beyond the sandbox; `null`: nowhere. */
  readonly objects: ObjectStore | null;
  /** Keeps notes over a restart of this process; `null`: nothing does. */
  readonly scratch: StateBlob | null;
  /** Counts nothing. */
  readonly execs: SessionExecs;
  /** What every start of a program passes. */
  readonly gate: CommandGate;
  /** What hides secrets in everything that is shown. */
  readonly redaction: Redaction;
  /** Files as commands have them, of the generation in force at the call; of a later one it is closed. */
  files(): RunnerFiles;
  /** Uploads and skills, writable. Whoever asks closes it. */
  provision(): RunnerFiles;
  /** Changes when a use of the sandbox ends, and when the next one begins. */
  use(): number;
  /** The configuration in force; `null` before the first one. */
  configured(): Configured | null;
  /** What `kept` of this part said last in an earlier process; `undefined`: nothing. */
  found(part: string): unknown;
  /** Resolves when the next process will know what all parts keep now. */
  save(): Promise<void>;
}
