/** The one gate: whatever starts a program in a session passes it. */
import { processOf } from '@boxkite/kit';
import { type CommandAllowlist, type CommandVerdict, judgeArguments, refusedBesideAllowlist } from '@boxkite/policy';
import { BoxkiteError, type ErrorDetails, type ExecRequest } from '@boxkite/protocol';
import { z } from 'zod';
import { type FixedLists, kernelPrograms, readList, readLists, SANDBOX_LIST } from './allowed-commands.ts';
import type { Configuration } from './configuration.ts';
import type { KernelPrograms } from './kernel-programs.ts';
import type { SessionPart } from './part.ts';

/** What the gate looks at. */
export type GateRequest = Pick<ExecRequest, 'argv' | 'env' | 'secret_env' | 'tty'>;

const SHELLS: ReadonlySet<string> = new Set(['/bin/sh', 'sh', 'bash', 'dash', 'ash']);

const keptSchema = z.object({ programs: z.array(z.string()).nullable(), is_sure: z.boolean().default(false) });

/** What a gate works with. */
export interface GateParts {
  readonly lists: FixedLists;
  /** The list of a use that goes on. */
  readonly used: string | null;
  /** Puts another set of programs in force before it resolves; where it rejects, what was in force stays. */
  readonly kernel: (programs: KernelPrograms) => Promise<void>;
  /** What `kept` said last in an earlier process; default: nothing. */
  readonly found?: unknown;
  /** Resolves when the next process will know what is kept now. */
  readonly save: () => Promise<void>;
}

/** Decides about every command of one session. */
export class CommandGate implements SessionPart {
  readonly #fixed: readonly CommandAllowlist[];
  readonly #kernel: (programs: KernelPrograms) => Promise<void>;
  readonly #save: () => Promise<void>;
  /** Of the present use. */
  #use: CommandAllowlist | null;
  /** What the kernel was told last since the sandbox was made; `undefined`: nothing. */
  #told: KernelPrograms | undefined;
  /** Whether that is in force: a call that failed may have come to be so all the same. */
  #isSure: boolean;
  /** Why it is not known what the kernel holds commands to. */
  #failure: Error | null = null;

  /** Errors: `invalid_request`. */
  constructor({ lists, used, kernel, found, save }: GateParts) {
    this.#fixed = readLists(lists);
    this.#use = readList(used, SANDBOX_LIST);
    this.#kernel = kernel;
    this.#save = save;
    const kept = keptSchema.safeParse(found).data;
    this.#told = kept?.programs;
    this.#isSure = kept?.is_sure ?? true;
  }

  kept(): z.output<typeof keptSchema> | undefined {
    return this.#told === undefined ? undefined : { programs: this.#told?.slice() ?? null, is_sure: this.#isSure };
  }

  /** An earlier process may have ended between two uses: the kernel is told again what the present one may run. */
  async settle(): Promise<void> {
    const wanted = kernelPrograms(this.#lists);
    if (this.#told === undefined || (this.#isSure && isSame(this.#told, wanted))) return;
    // What is kept says already that it is not sure, or something else.
    this.#isSure = false;
    try {
      await this.#kernel(wanted);
      this.#told = wanted;
      this.#isSure = true;
    } catch (error) {
      this.#failure = error instanceof Error ? error : new Error(String(error));
    }
  }

  /** Whether there is a list. */
  get isClosed(): boolean {
    return this.#lists.length > 0;
  }

  /** Errors: `command_not_allowed`; those of the kernel's layer where it could not be put in force. */
  admit(request: GateRequest): void {
    if (this.#failure !== null) throw this.#failure;
    const argv = askedFor(request.argv);
    for (const list of this.#lists) {
      if (isTerminalShell({ ...request, argv })) admitTerminal(list, argv[0] ?? '');
      else admitArguments(list, argv);
    }
    if (this.isClosed) refuseVariables(request);
  }

  /** For what runs a program for other work, with text that is not judged. Errors: `command_not_allowed`. */
  admitProgram(program: string): void {
    if (this.#failure !== null) throw this.#failure;
    for (const list of this.#lists) admitProgram(list, program);
  }

  /** Errors: `invalid_request`, with the key of what is wrong. */
  check({ sandbox_allowed_commands }: Configuration): void {
    readList(sandbox_allowed_commands, SANDBOX_LIST);
  }

  reset(): void {
    // Nothing is started until `begin` has put the next list in force.
  }

  async begin({ sandbox_allowed_commands }: Configuration): Promise<void> {
    const next = readList(sandbox_allowed_commands, SANDBOX_LIST);
    const before = kernelPrograms(this.#lists);
    const after = kernelPrograms(withList(this.#fixed, next));
    if (!this.#isSure || !isSame(before, after)) await this.#tell(after);
    this.#failure = null;
    this.#use = next;
  }

  /** The next process is to know of it before it can be so. */
  async #tell(programs: KernelPrograms): Promise<void> {
    this.#told = programs;
    this.#isSure = false;
    await this.#save();
    await this.#kernel(programs);
    this.#isSure = true;
  }

  get #lists(): readonly CommandAllowlist[] {
    return withList(this.#fixed, this.#use);
  }
}

function isSame(one: KernelPrograms, other: KernelPrograms): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function withList(lists: readonly CommandAllowlist[], other: CommandAllowlist | null): readonly CommandAllowlist[] {
  return other === null ? lists : [...lists, other];
}

/** A background process is a line for the shell; what starts it so that its errors go with its output is ours. */
function askedFor(argv: readonly string[]): readonly string[] {
  const started = processOf(argv);
  return started === null ? argv : ['sh', '-c', started.command];
}

/** A shell that takes its commands from a terminal, where nobody judges them. */
function isTerminalShell({ argv, tty }: GateRequest): boolean {
  const [name = '', ...args] = argv;
  return tty !== undefined && SHELLS.has(name) && args.every((arg) => arg === '-i' || arg === '-l');
}

function admitTerminal(list: CommandAllowlist, shell: string): void {
  if (list.enforce !== 'kernel') {
    const reason =
      'a shell on a terminal takes commands that nobody judges: only a list with enforce: "kernel" allows it';
    throw refusal({ verdict: 'refuse', reason, at: null, program: shell });
  }
  // The kernel lets every command start `sh`; what that starts then is on the list.
  if (shell !== 'sh' && shell !== '/bin/sh') admitProgram(list, shell);
}

function admitArguments(list: CommandAllowlist, argv: readonly string[]): void {
  const verdict = judgeArguments(list, argv);
  if (verdict.verdict === 'refuse') throw refusal(verdict);
}

/** Variables beside the list would decide what a listed program starts. */
function refuseVariables({ env, secret_env }: GateRequest): void {
  for (const [field, variables] of Object.entries({ env, secret_env })) {
    for (const [name, value] of Object.entries(variables ?? {})) {
      const problem = refusedBesideAllowlist(name, value);
      if (problem === null) continue;
      throw new BoxkiteError('command_not_allowed', `${field}: ${name} ${problem}`, {
        hint: 'Leave the variable out, or pass its value by an argument or a file.',
        details: { field, reason: problem, at: null, program: null },
      });
    }
  }
}

function admitProgram(list: CommandAllowlist, program: string): void {
  if (list.listsWithoutPatterns(program)) return;
  if (!list.programs.includes(program)) return admitArguments(list, [program]);
  const reason = `\`${program}\` runs whatever it is given here, so that a rule without patterns must list it`;
  throw refusal({ verdict: 'refuse', reason, at: null, program });
}

function refusal({ reason, at, program }: Extract<CommandVerdict, { readonly verdict: 'refuse' }>): BoxkiteError {
  const details: ErrorDetails = { reason, at, program };
  return new BoxkiteError('command_not_allowed', reason, { details });
}
