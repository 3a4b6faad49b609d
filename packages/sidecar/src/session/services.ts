/** The parts of a session, by name. The order is that of `reset` and `begin`. */
import { SessionFiles } from '../files/session-files.ts';
import { Interpreter } from '../interpreter/interpreter.ts';
import { Skills } from '../skills/skills.ts';
import { SessionStorage } from '../storage/session-storage.ts';
import { SecretsBroker } from './broker.ts';
import { Budget } from './budget.ts';
import type { SessionCore, SessionPart } from './part.ts';
import { Processes } from './processes.ts';
import { Scratch } from './scratch.ts';

/** See `openServices`. */
export type SessionServices = ReturnType<typeof openServices>;

/** Makes the parts of one session, or finds again what an earlier process kept of them. */
export function openServices(core: SessionCore) {
  const budget = new Budget(core, async () => {
    for (const part of Object.values<SessionPart>(services)) await part.spent?.();
    await core.execs.killUnattended();
  });
  const storage = new SessionStorage(core);
  const services = {
    gate: core.gate,
    budget,
    broker: new SecretsBroker(core),
    storage,
    files: new SessionFiles(core, storage),
    processes: new Processes(core, budget),
    interpreter: new Interpreter(core, budget),
    scratch: new Scratch(core.scratch),
    skills: new Skills(core),
  };
  return services;
}

/** What all of them keep. */
export function keptOf(services: object): Readonly<Record<string, unknown>> {
  const kept: Record<string, unknown> = {};
  for (const [name, part] of Object.entries(services) as readonly [string, SessionPart][]) {
    const value = part.kept?.();
    if (value !== undefined) kept[name] = value;
  }
  return kept;
}
