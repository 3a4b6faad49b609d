/** Writes recordings/ anew: what the published client sends and reads, over a scripted sidecar. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { record } from './support/record.ts';

const directory = join(import.meta.dirname, 'recordings');
const { library, command_line } = await record();
const files = { library: join(directory, 'library.json'), commandLine: join(directory, 'command-line.json') };
writeFileSync(files.library, JSON.stringify(library));
writeFileSync(files.commandLine, JSON.stringify(command_line));
execFileSync('biome', ['format', '--write', files.library, files.commandLine], { stdio: 'inherit' });
