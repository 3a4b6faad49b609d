/** Installs the published client once, before the workers that need it. */
import { installedClient } from './published.ts';

export function setup(): void {
  installedClient();
}
