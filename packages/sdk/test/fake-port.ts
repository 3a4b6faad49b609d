/** A scripted sandbox behind the SDK's port: what the SDK itself does is tested by it; the real one is in the contract suite. */

import type {
  Effective,
  ExecEvent,
  ExecHandle,
  ExecRecord,
  ExecRequest,
  FilesPort,
  SandboxPort,
  SandboxProvider,
  SandboxSpec,
} from '@boxkite/protocol';
import { BoxkiteError } from '@boxkite/protocol';

const NONE = '0'.repeat(16);

export const effective: Effective = {
  init: 'own',
  user: { uid: 1001, gid: 1001, host_uid: 100_000, groups: 0 },
  capabilities: { inheritable: NONE, permitted: NONE, effective: NONE, bounding: NONE, ambient: NONE },
  no_new_privs: true,
  seccomp: 'filter',
  seccomp_filters: 1,
  landlock: 4,
  namespaces: {},
  layers: {},
  memory: { via: 'none', bytes: null },
  processes: { via: 'rlimit', max: 256 },
  cpu: { via: 'none', cores: null },
  workspace: { bytes: 1 << 30, inodes: 1000, via: 'tmpfs' },
  network: 'none',
  programs: { enforced: 'none', count: 0, via: [] },
  descriptors: [0, 1, 2],
};

export function record(fields: Partial<ExecRecord> = {}): ExecRecord {
  return {
    exec_id: '1',
    end: 'exited',
    exit_code: 0,
    signal: null,
    reason: null,
    stdout_bytes: 0,
    stderr_bytes: 0,
    duration_ms: 1,
    usage: { cpu_ms: null, memory_peak_bytes: null },
    effective,
    ...fields,
  };
}

/** Output in the given pieces, then the end. */
export function script(pieces: readonly Uint8Array[], end: ExecRecord = record()): ExecEvent[] {
  let offset = 0;
  const events: ExecEvent[] = pieces.map((data) => {
    const event: ExecEvent = { type: 'output', stream: 'stdout', offset, data };
    offset += data.length;
    return event;
  });
  return [...events, { type: 'ended', record: { ...end, stdout_bytes: offset } }];
}

export class FakeHandle implements ExecHandle {
  readonly exec_id = '1';
  readonly effective = effective;
  readonly calls: string[] = [];
  readonly #events: AsyncIterator<ExecEvent>;

  constructor(events: Iterable<ExecEvent> | AsyncIterable<ExecEvent>) {
    this.#events = (async function* () {
      yield* events;
    })();
  }

  [Symbol.asyncIterator](): AsyncIterator<ExecEvent> {
    return { next: () => this.#events.next() };
  }

  async write(data: Uint8Array): Promise<void> {
    this.calls.push(`write ${new TextDecoder().decode(data)}`);
  }

  async closeStdin(): Promise<void> {
    this.calls.push('closeStdin');
  }

  async signal(signal: string | number): Promise<void> {
    this.calls.push(`signal ${signal}`);
  }

  async kill(): Promise<void> {
    this.calls.push('kill');
  }

  async resize(columns: number, rows: number): Promise<void> {
    this.calls.push(`resize ${columns}x${rows}`);
  }
}

const noFiles: FilesPort = new Proxy({} as FilesPort, {
  get: () => () => {
    throw new BoxkiteError('unsupported', 'this fake has no files');
  },
});

export class FakeSandbox implements SandboxPort {
  readonly id = 'fake';
  readonly effective = effective;
  readonly execs = null;
  readonly files: FilesPort;
  readonly requests: ExecRequest[] = [];
  destroyed = 0;
  readonly #answer: (request: ExecRequest, signal?: AbortSignal) => Promise<ExecHandle>;

  constructor(answer: (request: ExecRequest, signal?: AbortSignal) => Promise<ExecHandle>, files: FilesPort = noFiles) {
    this.#answer = answer;
    this.files = files;
  }

  exec(request: ExecRequest, signal?: AbortSignal): Promise<ExecHandle> {
    this.requests.push(request);
    return this.#answer(request, signal);
  }

  async destroy(): Promise<void> {
    this.destroyed += 1;
  }
}

export class FakeProvider implements SandboxProvider {
  readonly sandboxes = null;
  readonly specs: SandboxSpec[] = [];
  readonly sandbox: FakeSandbox;

  constructor(sandbox: FakeSandbox) {
    this.sandbox = sandbox;
  }

  async create(spec: SandboxSpec): Promise<SandboxPort> {
    this.specs.push(spec);
    return this.sandbox;
  }

  async close(): Promise<void> {
    await this.sandbox.destroy();
  }
}
