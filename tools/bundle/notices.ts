/** The licence texts of what a bundle inlines: their authors allow copies on the condition that the notice goes along. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const marker = '/node_modules/';

/** Directory of the npm package that a module file belongs to; `undefined` for our own sources. */
function packageDirectory(module: string): string | undefined {
  const at = module.lastIndexOf(marker);
  if (at === -1) return undefined;
  const rest = module.slice(at + marker.length).split('/');
  return module.slice(0, at + marker.length) + rest.slice(0, rest[0]?.startsWith('@') === true ? 2 : 1).join('/');
}

/** One section for each package among the module files. Errors: a package without a licence file can't be bundled. */
export function notices(modules: readonly string[]): string {
  const directories = new Set(modules.flatMap((module) => packageDirectory(module) ?? []));
  const sections = [...directories].sort().map((directory) => {
    const file = readdirSync(directory).find((name) => /^licen[cs]e/i.test(name));
    if (file === undefined) throw new Error(`bundle: ${directory} has no licence file to pass on`);
    const name = directory.slice(directory.lastIndexOf(marker) + marker.length);
    return `${name}\n${'-'.repeat(name.length)}\n\n${readFileSync(join(directory, file), 'utf8').trim()}\n`;
  });
  return sections.join('\n\n');
}
