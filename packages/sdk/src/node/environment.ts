/** The one place where the SDK reads the environment of its program. */
import type { Environment } from '../platform.ts';

/** What the SDK takes from it; a variable that is empty is as good as not set. */
export function environment(): Environment {
  const { BOXKITE_URL, BOXKITE_API_KEY, XDG_RUNTIME_DIR, SANDBOX_ALLOWED_COMMANDS } = process.env;
  return {
    url: BOXKITE_URL === '' ? undefined : BOXKITE_URL,
    apiKey: BOXKITE_API_KEY === '' ? undefined : BOXKITE_API_KEY,
    runtimeDirectory: XDG_RUNTIME_DIR,
    allowedCommands: SANDBOX_ALLOWED_COMMANDS?.trim() === '' ? undefined : SANDBOX_ALLOWED_COMMANDS,
  };
}
