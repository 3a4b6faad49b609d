import type {
  AndOr,
  Case,
  CaseItem,
  Command,
  CommandNode,
  CompoundList,
  For,
  If,
  ParsedScript,
  Pipeline,
  Redirected,
  Statement,
  While,
} from 'unbash';
import { Cursor } from './cursor.ts';
import { judgeInvocation } from './judge-program.ts';
import { deeper, isOwnVariable, type Judgement } from './judgement.ts';
import { judgeRedirection } from './redirections.ts';
import { quote, Refusal } from './refusal.ts';
import { literalWord, type ShellWord } from './shell-word.ts';
import { judgeSimpleCommand } from './simple-command.ts';

/** Words that a shell takes as part of its grammar where a program is expected; some of them only bash. */
const RESERVED = new Set(
  'if then elif else fi for while until do done case esac function select coproc { } ! [['.split(' '),
);

/** Judges every command of a tree, and that the tree accounts for all of the text. */
export class Walker {
  readonly #cursor: Cursor;
  readonly #judgement: Judgement;
  #commands = 0;

  /** @param source The text that the tree was made of. */
  constructor(source: string, judgement: Judgement) {
    this.#cursor = new Cursor(source);
    this.#judgement = judgement;
  }

  /** @throws Refusal at the first command that may not run, or where the text isn't understood. */
  script(tree: ParsedScript, depth: number): void {
    this.#statements(tree.commands, depth);
    this.#cursor.finish();
    if (this.#commands === 0) throw new Refusal('there is no program in the text', null);
  }

  #statements(statements: readonly Statement[], depth: number): void {
    const cursor = this.#cursor;
    cursor.skipLines();
    for (const [index, statement] of statements.entries()) {
      cursor.expectAt(statement.pos);
      this.#andOr(statement.command, depth);
      const last = index === statements.length - 1;
      if (statement.background === true) this.#background();
      else if (cursor.sees(';') && !cursor.sees(';;')) cursor.operator(';');
      else if (!cursor.skipLines() && !last) throw cursor.unexpected(';');
      cursor.skipLines();
    }
  }

  #background(): void {
    const { source, at } = this.#cursor;
    this.#cursor.operator('&');
    const next = source.charAt(this.#cursor.at);
    if (next === '&' || next === '>') throw this.#cursor.disagreement(at);
  }

  #list({ commands }: CompoundList, depth: number): void {
    if (commands.length === 0) throw new Refusal('a command is missing here', this.#cursor.at);
    this.#statements(commands, depth);
  }

  #andOr(node: AndOr | Pipeline | CommandNode, depth: number): void {
    if (node.type !== 'AndOr') return this.#pipeline(node, depth);
    for (const [index, command] of node.commands.entries()) {
      if (index > 0) this.#between(node.operators[index - 1] ?? '');
      this.#pipeline(command, depth);
    }
  }

  #between(operator: string): void {
    this.#cursor.operator(operator);
    this.#cursor.skipLines();
  }

  #pipeline(node: Pipeline | CommandNode, depth: number): void {
    const cursor = this.#cursor;
    if (node.type !== 'Pipeline') return this.#command(node, depth);
    const timed = this.#prefixes(node);
    for (const [index, command] of node.commands.entries()) {
      if (index === 0 && timed !== undefined) this.#timed(timed, command, depth);
      else {
        if (index > 0) this.#pipe(node.operators[index - 1] ?? '');
        this.#command(command, depth);
      }
    }
    if (node.commands.length === 0) throw new Refusal('a command is missing here', cursor.at);
  }

  /** Passes `!` and `time`; the words of the latter. */
  #prefixes({ prefixes }: Pipeline): ShellWord[] | undefined {
    const cursor = this.#cursor;
    const kinds = prefixes.map(({ type }) => type).join();
    if (!['', 'Negation', 'Time', 'Negation,Time'].includes(kinds)) {
      throw new Refusal('a second ! or `time`, or ! behind `time`, is read differently by shells', cursor.at);
    }
    for (const prefix of prefixes) {
      cursor.expectAt(prefix.pos);
      const { at } = cursor;
      if (prefix.type === 'Negation') {
        cursor.keyword('!');
        continue;
      }
      cursor.keyword('time');
      if (prefix.endOfOptions !== undefined) throw new Refusal('`time` takes no --', at, 'time');
      const option = prefix.posix && [cursor.word(prefix.posix.pos, prefix.posix.end)];
      return [literalWord('time', at), ...(option ?? [])];
    }
    return undefined;
  }

  #pipe(operator: string): void {
    if (operator === '|&') throw new Refusal('only bash knows |& : use 2>&1 |', this.#cursor.at);
    if (this.#cursor.sees('||')) throw this.#cursor.disagreement(this.#cursor.at);
    this.#between(operator);
  }

  /** bash times a whole pipeline, other shells start a program of this name with the first command as its arguments. */
  #timed(words: ShellWord[], command: CommandNode, depth: number): void {
    const [name, ...options] = words;
    if (name === undefined || command.type !== 'Command') {
      throw new Refusal('`time` takes a simple command here', name?.at ?? null);
    }
    this.#commands += 1;
    const parts = judgeSimpleCommand(this.#cursor, command, this.#judgement);
    if (parts.assignments.length > 0) throw new Refusal('`time` takes a program, not an assignment', name.at, 'time');
    judgeInvocation({ name, args: [...options, ...parts.words], depth }, this.#judgement);
  }

  #command(node: CommandNode, depth: number): void {
    this.#cursor.expectAt(node.pos);
    if (node.type === 'Command') return this.#simple(node, depth);
    if (node.type === 'Redirected') return this.#redirected(node, depth);
    const { at } = this.#cursor;
    const inner = deeper(depth, at);
    switch (node.type) {
      case 'Subshell':
        return this.#subshell(node.body, inner);
      case 'BraceGroup':
        return this.#enclosed('{', node.body, '}', inner);
      case 'If':
        return this.#if(node, inner);
      case 'While':
        return this.#while(node, inner);
      case 'For':
        return this.#for(node, inner);
      case 'Case':
        return this.#case(node, inner);
      case 'TestCommand':
        return this.#test(depth);
      case 'ArithmeticCommand':
      case 'ArithmeticFor':
      case 'Select':
      case 'Coproc':
      case 'Function':
        throw new Refusal(ONE_SHELL_ONLY[node.type], at);
      default:
        // A form of a later version of the grammar.
        throw new Refusal('this form can’t be judged', at);
    }
  }

  #simple(node: Command, depth: number): void {
    const { source, at } = this.#cursor;
    this.#commands += 1;
    const { words, assignments, hasRedirection } = judgeSimpleCommand(this.#cursor, node, this.#judgement);
    const [name, ...args] = words;
    if (name === undefined) {
      if (assignments.length === 0 || hasRedirection) throw new Refusal('a redirection needs a program', at);
      return;
    }
    if (name.bare && RESERVED.has(source.slice(name.at, name.at + name.text.length))) {
      throw new Refusal(`${quote(name.text)} stands out of place`, name.at);
    }
    judgeInvocation({ name, args, depth }, this.#judgement);
  }

  #redirected(node: Redirected, depth: number): void {
    this.#command(node.command, depth);
    for (const redirection of node.redirects) judgeRedirection(this.#cursor, redirection, this.#judgement);
  }

  #subshell(body: CompoundList, depth: number): void {
    const cursor = this.#cursor;
    cursor.operator('(');
    if (cursor.source.charAt(cursor.at) === '(') {
      throw new Refusal('(( is arithmetic in some shells and two sub-shells in others: write ( (', cursor.at - 1);
    }
    this.#list(body, depth);
    cursor.operator(')');
  }

  /** A list between two keywords. */
  #enclosed(open: string, body: CompoundList, close: string, depth: number): void {
    this.#cursor.keyword(open);
    this.#list(body, depth);
    this.#cursor.keyword(close);
  }

  #if(node: If, depth: number): void {
    const cursor = this.#cursor;
    cursor.keyword('if');
    this.#list(node.clause, depth);
    cursor.keyword('then');
    this.#list(node.then, depth);
    for (const branch of node.elif) {
      cursor.keyword('elif');
      this.#list(branch.clause, depth);
      cursor.keyword('then');
      this.#list(branch.then, depth);
    }
    if (node.else !== undefined) {
      cursor.keyword('else');
      this.#list(node.else, depth);
    }
    cursor.keyword('fi');
  }

  #while(node: While, depth: number): void {
    this.#cursor.keyword(node.kind);
    this.#list(node.clause, depth);
    this.#enclosed('do', node.body, 'done', depth);
  }

  #for(node: For, depth: number): void {
    const cursor = this.#cursor;
    cursor.keyword('for');
    const name = cursor.word(node.name.pos, node.name.end);
    if (!name.bare || !isOwnVariable(name.text)) {
      throw new Refusal('the variable of a loop is a name in lower case: another one could change what runs', name.at);
    }
    cursor.skipLines();
    if (node.wordlist === undefined) this.#judgement.setVariable(name.text, undefined);
    else {
      cursor.keyword('in');
      for (const word of node.wordlist) {
        this.#judgement.setVariable(name.text, cursor.word(word.pos, word.end));
      }
    }
    if (cursor.sees(';')) cursor.operator(';');
    cursor.skipLines();
    this.#enclosed('do', node.body, 'done', depth);
  }

  #case(node: Case, depth: number): void {
    const cursor = this.#cursor;
    cursor.keyword('case');
    cursor.word(node.word.pos, node.word.end);
    cursor.skipLines();
    cursor.keyword('in');
    for (const [index, item] of node.items.entries()) {
      cursor.skipLines();
      this.#arm(item, index === node.items.length - 1, depth);
    }
    cursor.skipLines();
    cursor.keyword('esac');
  }

  #arm(item: CaseItem, last: boolean, depth: number): void {
    const cursor = this.#cursor;
    if (cursor.sees('(')) cursor.operator('(');
    for (const [index, pattern] of item.pattern.entries()) {
      if (index > 0) cursor.operator('|');
      cursor.word(pattern.pos, pattern.end);
    }
    cursor.operator(')');
    this.#statements(item.body.commands, depth);
    if (item.terminator === undefined && last) return;
    if (item.terminator !== ';;' || cursor.sees(';;&')) {
      throw new Refusal('only bash knows ;& and ;;& : end the arm with ;;', cursor.at);
    }
    cursor.operator(';;');
  }

  /** Other shells take `[[` for a program and its operators for their own, so that only words may stand in it. */
  #test(depth: number): void {
    const cursor = this.#cursor;
    const name = literalWord('[[', cursor.at);
    cursor.keyword('[[');
    this.#commands += 1;
    const args: ShellWord[] = [];
    for (;;) {
      const word = cursor.freeWord();
      if (word === undefined)
        throw new Refusal('up to ]] only words may stand: shells read operators differently', cursor.at);
      args.push(word);
      if (word.bare && word.known && word.text === ']]') break;
    }
    judgeInvocation({ name, args, depth }, this.#judgement);
  }
}

const ONE_SHELL_ONLY = {
  ArithmeticCommand: '(( … )) is arithmetic in some shells and two sub-shells in others: use [ … ]',
  ArithmeticFor: 'only bash knows `for ((`: use `for NAME in …`',
  Select: 'only bash knows `select`',
  Coproc: 'only bash knows `coproc`',
  Function: 'functions can’t be judged: write their commands out',
} as const;
