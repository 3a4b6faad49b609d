/** The licence texts of what a bundle inlines: their authors allow copies on the condition that the notice goes along. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

const marker = '/node_modules/';

/** Of a package that names the MIT licence and does not hold its text. */
const manifest = z.object({ license: z.literal('MIT'), author: z.string() });
const mit = (author: string): string => `The MIT License (MIT)

Copyright (c) ${author}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;

/** Directory of the npm package that a module file belongs to; `undefined` for our own sources. */
function packageDirectory(module: string): string | undefined {
  const at = module.lastIndexOf(marker);
  if (at === -1) return undefined;
  const rest = module.slice(at + marker.length).split('/');
  return module.slice(0, at + marker.length) + rest.slice(0, rest[0]?.startsWith('@') === true ? 2 : 1).join('/');
}

/** One section for each package among the module files. Errors: a package without a licence can't be bundled. */
export function notices(modules: readonly string[]): string {
  const directories = new Set(modules.flatMap((module) => packageDirectory(module) ?? []));
  const sections = [...directories].sort().map((directory) => {
    const name = directory.slice(directory.lastIndexOf(marker) + marker.length);
    return `${name}\n${'-'.repeat(name.length)}\n\n${licence(directory).trim()}\n`;
  });
  return sections.join('\n\n');
}

function licence(directory: string): string {
  const file = readdirSync(directory).find((name) => /^licen[cs]e/i.test(name));
  if (file !== undefined) return readFileSync(join(directory, file), 'utf8');
  const named = manifest.safeParse(JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')));
  if (!named.success) throw new Error(`bundle: ${directory} has no licence to pass on`);
  return mit(named.data.author);
}
