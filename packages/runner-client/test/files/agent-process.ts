import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { FileAgentClient } from '../../src/files/index.ts';

const repository = new URL('../../../../', import.meta.url).pathname;

/** The static agent: where the environment says, or where `cargo build --release` puts it. */
export const agentPath = [
  process.env['BOXKITE_AGENT'],
  join(repository, 'runner/target/x86_64-unknown-linux-gnu/release/boxkite-agent'),
  join(repository, 'runner/target/aarch64-unknown-linux-gnu/release/boxkite-agent'),
].find((path) => path !== undefined && existsSync(path));

/** A real file agent in namespaces of its own, as an ordinary user may make them. */
export class AgentProcess implements AsyncDisposable {
  /** The directory of the host that holds `workspace`, `uploads` and so on. */
  readonly directory: string;
  /** Lines that the harness has printed. */
  readonly lines: string[] = [];
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #sockets = new Set<Socket>();
  #stderr = '';

  private constructor(directory: string, child: ChildProcessWithoutNullStreams) {
    this.directory = directory;
    this.#child = child;
    createInterface({ input: child.stdout }).on('line', (line) => this.lines.push(line));
    child.stderr.on('data', (text) => {
      this.#stderr += text;
    });
  }

  /** Starts one. `workspace` may be `tmpfs:size=...` instead of a directory of the host; `base` is where those are made. */
  static async start(options: { readonly workspace?: string; readonly base?: string } = {}): Promise<AgentProcess> {
    if (agentPath === undefined) throw new Error('build the file agent first: make native, or set BOXKITE_AGENT');
    const directory = await mkdtemp(join(options.base ?? tmpdir(), 'boxkite-files-'));
    const at = (name: string) => join(directory, name);
    for (const name of ['workspace', 'uploads', 'outputs', 'skills', 'tmp']) await mkdir(at(name));
    const roots = {
      '/workspace': options.workspace ?? at('workspace'),
      '/mnt/user-data/uploads': `${at('uploads')}:ro`,
      '/mnt/user-data/outputs': at('outputs'),
      '/mnt/skills': `${at('skills')}:ro`,
      '/tmp': at('tmp'),
    };
    const script = new URL('start-agent.py', import.meta.url).pathname;
    const child = spawn('python3', [script, agentPath, at('socket'), JSON.stringify(roots)]);
    const agent = new AgentProcess(directory, child);
    await agent.until('ready');
    return agent;
  }

  /** A path of the host below the agent's directory. */
  host(...names: readonly string[]): string {
    return join(this.directory, ...names);
  }

  /** A new connection to the agent. */
  async socket(): Promise<Socket> {
    const socket = connect(this.host('socket'));
    this.#sockets.add(socket);
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return socket;
  }

  async client(): Promise<FileAgentClient> {
    return new FileAgentClient(await this.socket());
  }

  /** Waits for a line of the harness. */
  async until(line: string): Promise<void> {
    for (let tries = 0; !this.lines.includes(line); tries++) {
      if (tries > 1000 || this.#child.exitCode !== null) {
        throw new Error(`no "${line}" from the agent's harness: ${this.lines.join(', ')} ${this.#stderr}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.stdin.end();
    if (this.#child.exitCode === null) await ended;
    await rm(this.directory, { recursive: true, force: true });
  }
}
