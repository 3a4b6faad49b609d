/** A server in memory with the meaning of the port: sandboxes, execs whose output a test scripts, files, keys. */
import type {
  ApiKey,
  ApiKeysPort,
  CollectedExec,
  Effective,
  ExecEvent,
  ExecHandle,
  ExecRecord,
  ExecRequest,
  ExecSummary,
  ExecsPort,
  NewApiKey,
  OutputRange,
  SandboxesPort,
  SandboxPort,
  SandboxSpec,
  SandboxSummary,
  SandboxUsage,
  SandboxWithUsage,
  ServerPort,
} from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';
import { MemoryFiles } from './memory-files.ts';

export const effective: Effective = {
  init: 'own',
  user: { uid: 1001, gid: 1001, host_uid: 100_000, groups: 0 },
  capabilities: { inheritable: '0', permitted: '0', effective: '0', bounding: '0', ambient: '0' },
  no_new_privs: true,
  seccomp: 'filter',
  seccomp_filters: 1,
  landlock: 4,
  namespaces: {},
  layers: {},
  memory: { via: 'cgroup_v1', bytes: 64 << 20 },
  processes: { via: 'rlimit', max: 256 },
  cpu: { via: 'none', cores: null },
  workspace: { bytes: 1 << 30, inodes: 262_144, via: 'tmpfs' },
  network: 'none',
  programs: { enforced: 'none', count: 0, via: [] },
  descriptors: [0, 1, 2],
};

const START = Date.parse('2026-03-01T12:00:00Z');

/** What a scripted command does: its events come one by one, and it hears what is sent to it. */
export type Script = (exec: FakeExec) => AsyncIterable<ExecEvent> | Iterable<ExecEvent>;

export class FakeExec {
  readonly request: ExecRequest;
  readonly id: string;
  readonly calls: string[] = [];
  readonly input: Uint8Array[] = [];
  readonly #script: Script;
  readonly #waiting: (() => void)[] = [];
  events: ExecEvent[] = [];
  ended: ExecRecord | null = null;

  constructor(id: string, request: ExecRequest, script: Script) {
    this.id = id;
    this.request = request;
    this.#script = script;
    void this.#run();
  }

  record(fields: Partial<ExecRecord> = {}): ExecEvent {
    const of = (stream: string): number =>
      this.events.reduce(
        (sum, event) => sum + (event.type === 'output' && event.stream === stream ? event.data.length : 0),
        0,
      );
    const record: ExecRecord = {
      exec_id: this.id,
      end: 'exited',
      exit_code: 0,
      signal: null,
      reason: null,
      stdout_bytes: of('stdout'),
      stderr_bytes: of('stderr'),
      duration_ms: 1,
      usage: { cpu_ms: 1, memory_peak_bytes: null },
      effective,
      ...fields,
    };
    return { type: 'ended', record };
  }

  get summary(): ExecSummary {
    return {
      exec_id: this.id,
      state: this.ended === null ? 'running' : 'ended',
      argv: this.request.argv,
      cwd: this.request.cwd ?? '/workspace',
      tty: this.request.tty !== undefined,
      started_at: new Date(START).toISOString(),
      ended_at: this.ended === null ? null : new Date(START + 61_000).toISOString(),
      stdout_bytes: this.ended?.stdout_bytes ?? 0,
      stderr_bytes: this.ended?.stderr_bytes ?? 0,
      record: this.ended,
    };
  }

  /** Resolves at the next call that the command hears. */
  heard(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  hear(call: string): void {
    this.calls.push(call);
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  async *follow(from = 0): AsyncGenerator<ExecEvent, void, undefined> {
    for (let at = from; ; at += 1) {
      while (at >= this.events.length) await new Promise((resolve) => setTimeout(resolve, 1));
      const event = this.events[at];
      if (event === undefined) return;
      yield event;
      if (event.type === 'ended') return;
    }
  }

  async #run(): Promise<void> {
    for await (const event of this.#script(this)) {
      this.events.push(event);
      if (event.type === 'ended') this.ended = event.record;
    }
  }
}

/** Output of a text at an offset. */
export function output(text: string | Uint8Array, stream: 'stdout' | 'stderr' = 'stdout', offset = 0): ExecEvent {
  return { type: 'output', stream, offset, data: typeof text === 'string' ? Buffer.from(text) : text };
}

export class FakeSandbox implements SandboxPort {
  readonly id: string;
  readonly effective = effective;
  readonly files: MemoryFiles;
  readonly all: FakeExec[] = [];
  readonly server: FakeServer;
  usage: SandboxUsage = { memory_bytes: 5 << 20, cpu_ms: 0, processes: 2, execs: 0 };
  summary: SandboxSummary;

  constructor(server: FakeServer, id: string, spec: SandboxSpec) {
    this.server = server;
    this.id = id;
    this.files = new MemoryFiles();
    this.summary = {
      id,
      state: 'ready',
      state_reason: null,
      label: spec.label ?? null,
      created_at: new Date(Date.now() - 90_000).toISOString(),
      destroyed_at: null,
      // Half a second of it has gone, so that a table says the same whether the next millisecond has come.
      expires_at: new Date(Date.now() + (spec.lifetime_minutes ?? 60) * 60_000 - 500).toISOString(),
      workspace: { kind: spec.workspace ?? 'tmpfs', kept: true },
      effective,
    };
  }

  begin(request: ExecRequest): FakeExec {
    const exec = new FakeExec(String(this.all.length + 1), request, (each) => this.server.script(each));
    this.all.push(exec);
    return exec;
  }

  async exec(request: ExecRequest): Promise<ExecHandle> {
    const exec = this.begin(request);
    const { execs } = this;
    return {
      exec_id: exec.id,
      effective,
      write: (data) => execs.write(exec.id, data),
      closeStdin: () => execs.closeStdin(exec.id),
      signal: (signal) => execs.signal(exec.id, signal),
      kill: () => execs.kill(exec.id),
      resize: (columns, rows) => execs.resize(exec.id, columns, rows),
      [Symbol.asyncIterator]: () => exec.follow(),
    };
  }

  find(id: string): FakeExec {
    const exec = this.all.find((each) => each.id === id);
    if (exec === undefined) throw new BoxkiteError('not_found', 'no such exec');
    return exec;
  }

  readonly ranges: (OutputRange | undefined)[] = [];

  readonly execs: ExecsPort = {
    start: async (request) => this.begin(request).summary,
    run: (): Promise<CollectedExec> => Promise.reject(new Error('not used')),
    list: async () => this.all.map(({ summary }) => summary),
    get: async (id) => this.find(id).summary,
    output: (id, range) => {
      this.ranges.push(range);
      return this.find(id).follow();
    },
    write: async (id, data) => {
      this.find(id).input.push(data);
      this.find(id).hear('write');
    },
    closeStdin: async (id) => this.find(id).hear('closeStdin'),
    signal: async (id, signal) => this.find(id).hear(`signal ${signal}`),
    kill: async (id) => this.find(id).hear('kill'),
    resize: async (id, columns, rows) => this.find(id).hear(`resize ${columns}x${rows}`),
  };

  async destroy(): Promise<void> {
    await this.server.sandboxes.destroy(this.id);
  }
}

export class FakeServer implements ServerPort {
  readonly made: SandboxSpec[] = [];
  readonly all: FakeSandbox[] = [];
  readonly keyList: ApiKey[] = [];
  closed = 0;
  lists = 0;
  /** What commands do. */
  script: Script = function* (exec) {
    yield exec.record();
  };

  /** Adds a sandbox with this id. */
  add(id: string, spec: SandboxSpec = {}, fields: Partial<SandboxSummary> = {}): FakeSandbox {
    const sandbox = new FakeSandbox(this, id, spec);
    sandbox.summary = { ...sandbox.summary, ...fields };
    this.all.push(sandbox);
    return sandbox;
  }

  async create(spec: SandboxSpec): Promise<SandboxPort> {
    this.made.push(spec);
    const digit = String(this.all.length + 1);
    return this.add(`${digit.repeat(8)}-0000-4000-8000-000000000000`, spec);
  }

  find(id: string): FakeSandbox {
    const sandbox = this.all.find((each) => each.id === id);
    if (sandbox === undefined) throw new BoxkiteError('not_found', `there is no sandbox ${id}`);
    return sandbox;
  }

  change(id: string, fields: Partial<SandboxSummary>): SandboxSummary {
    const sandbox = this.find(id);
    sandbox.summary = { ...sandbox.summary, ...fields };
    return sandbox.summary;
  }

  readonly sandboxes: SandboxesPort = {
    connect: async (id) => this.find(id),
    get: async (id) => this.find(id).summary,
    list: (_signal, filter) => this.#list(filter?.active_only === true),
    extend: async (id, minutes) =>
      this.change(id, { expires_at: new Date(Date.now() + minutes * 60_000).toISOString() }),
    stop: async (id) => {
      if (this.find(id).summary.workspace.kind !== 'disk')
        throw new BoxkiteError('workspace_not_kept', 'its files are in memory');
      return this.change(id, { state: 'stopped', state_reason: 'requested' });
    },
    start: async (id) => {
      this.change(id, { state: 'ready', state_reason: null });
      return this.find(id);
    },
    destroy: async (id) => {
      this.change(id, { state: 'destroyed', state_reason: 'requested', destroyed_at: new Date().toISOString() });
    },
  };

  async *#list(active: boolean): AsyncGenerator<SandboxSummary, void, undefined> {
    this.lists += 1;
    for (const { summary } of this.all) if (!active || summary.state !== 'destroyed') yield summary;
  }

  async *usage(): AsyncGenerator<SandboxWithUsage, void, undefined> {
    for (const { summary, usage } of this.all) {
      if (summary.state === 'destroyed') continue;
      yield { ...summary, usage: summary.state === 'ready' ? usage : null };
    }
  }

  readonly keys: ApiKeysPort = {
    create: async ({ name, account, admin }): Promise<NewApiKey> => {
      const key: ApiKey = {
        id: `key${this.keyList.length + 1}`,
        name,
        account: account ?? 'local',
        admin: admin ?? false,
        prefix: 'bxk_live_abcd',
        created_at: new Date(Date.now() - 90_000).toISOString(),
        last_used_at: null,
      };
      this.keyList.push(key);
      return { ...key, key: 'bxk_live_abcdefgh' };
    },
    list: async () => this.keyList,
    remove: async (id) => {
      this.keyList.splice(
        this.keyList.findIndex((key) => key.id === id),
        1,
      );
    },
  };

  async close(): Promise<void> {
    this.closed += 1;
  }
}
