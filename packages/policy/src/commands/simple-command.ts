import type { Assignment, Command } from 'unbash';
import type { Cursor } from './cursor.ts';
import { HARMLESS_VARIABLES, harmfulValue, isOwnVariable, type Judgement } from './judgement.ts';
import { judgeRedirection } from './redirections.ts';
import { quote, Refusal } from './refusal.ts';
import type { ShellWord } from './shell-word.ts';
import { readWord } from './word-reader.ts';

interface AssignedValue {
  readonly name: string;
  readonly value: ShellWord;
  readonly at: number;
}

/** What a simple command consists of. */
export interface SimpleCommand {
  /** The program and its arguments; empty if there are only assignments. */
  readonly words: readonly ShellWord[];
  readonly assignments: readonly AssignedValue[];
  readonly hasRedirection: boolean;
}

const ASSIGNMENT = /([A-Za-z_][A-Za-z0-9_]*)=/y;

/** Reads a simple command, and judges its redirections and the assignments in front of it. */
export function judgeSimpleCommand(cursor: Cursor, node: Command, judgement: Judgement): SimpleCommand {
  const words: ShellWord[] = [];
  const assignments: AssignedValue[] = [];
  let hasRedirection = false;
  for (const part of node.prefix) {
    if (part.type === 'Assignment') assignments.push(readAssignment(cursor, part));
    else {
      judgeRedirection(cursor, part, judgement);
      hasRedirection = true;
    }
  }
  if (node.name !== undefined) words.push(cursor.word(node.name.pos, node.name.end));
  for (const part of node.suffix) {
    if (part.type === 'Word' || part.type === 'Assignment') words.push(cursor.word(part.pos, part.end));
    else {
      judgeRedirection(cursor, part, judgement);
      hasRedirection = true;
    }
  }
  judgeAssignments(assignments, words[0], judgement);
  return { words, assignments, hasRedirection };
}

function readAssignment(cursor: Cursor, node: Assignment): AssignedValue {
  cursor.expectAt(node.pos);
  const { source, at } = cursor;
  ASSIGNMENT.lastIndex = at;
  const name = ASSIGNMENT.exec(source)?.[1];
  if (name === undefined) throw new Refusal('an assignment is NAME=value: no += and no index', at);
  const read = readWord(source, at + name.length + 1);
  if (node.end < read.contentEnd || node.end > read.end) throw cursor.disagreement(at);
  cursor.at = read.end;
  return { name, value: read.word, at };
}

function judgeAssignments(
  assignments: readonly AssignedValue[],
  program: ShellWord | undefined,
  judgement: Judgement,
): void {
  for (const [index, { name, value, at }] of assignments.entries()) {
    if (HARMLESS_VARIABLES.has(name)) {
      const harm = harmfulValue(name, value.known ? value.text : undefined);
      if (harm !== null) throw new Refusal(`${quote(name)} may not be set so: ${harm}`, at);
      continue;
    }
    if (program === undefined && isOwnVariable(name)) {
      judgement.setVariable(name, value);
      continue;
    }
    const last = index === assignments.length - 1;
    if (name === 'IFS' && last && value.known && program?.known === true && program.text === 'read') continue;
    const allowed = [...HARMLESS_VARIABLES].join(', ');
    const advice =
      program === undefined
        ? `only ${allowed} and names in lower case`
        : `only ${allowed} may be set in front of a program`;
    throw new Refusal(`${quote(name)} may not be set: ${advice}`, at);
  }
}
