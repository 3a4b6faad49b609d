/** A program that uses a sandbox and never destroys it. Prints the process id of its runner. */
import { processes } from '@boxkite/testing';
import { Sandbox } from 'boxkite';

const sandbox = await Sandbox.create({ daemon: false });
await sandbox.exec('true');
await sandbox.files.write('file', 'content');
const runner = processes().find(({ parent }) => parent === process.pid);
console.log(String(runner?.pid));
