/** `node:sqlite` in the shape that kysely's dialect of SQLite takes. */
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import type { SqliteDatabase, SqliteStatement } from 'kysely';

/** Statements that are kept compiled; every query of ours has one of a few texts. */
const MOST_STATEMENTS = 200;

/** One open database. */
export class NodeSqlite implements SqliteDatabase {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, SqliteStatement>();

  /** Errors: those of SQLite, with `errcode`. */
  constructor(path: string, busyTimeoutMs: number, readOnly = false) {
    this.#database = new DatabaseSync(path, { timeout: busyTimeoutMs, enableForeignKeyConstraints: true, readOnly });
  }

  /** Runs statements without results. */
  exec(sql: string): void {
    this.#database.exec(sql);
  }

  /** Rows of a statement without parameters. */
  all(sql: string): unknown[] {
    return this.#database.prepare(sql).all();
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }

  prepare(sql: string): SqliteStatement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    if (this.#statements.size >= MOST_STATEMENTS) this.#statements.clear();
    const compiled = adapted(this.#database.prepare(sql));
    const statement = sql.toLowerCase() === 'rollback' ? this.#whereOpen(compiled) : compiled;
    this.#statements.set(sql, statement);
    return statement;
  }

  /** A full disk makes SQLite roll back by itself; what is left to do then is nothing, and no error of its own. */
  #whereOpen(rollback: SqliteStatement): SqliteStatement {
    return {
      ...rollback,
      run: (parameters) =>
        this.#database.isTransaction ? rollback.run(parameters) : { changes: 0, lastInsertRowid: 0 },
    };
  }
}

function adapted(statement: StatementSync): SqliteStatement {
  return {
    reader: statement.columns().length > 0,
    all: (parameters) => statement.all(...parameters.map(value)),
    run: (parameters) => statement.run(...parameters.map(value)),
    iterate: (parameters) => statement.iterate(...parameters.map(value)),
  };
}

function value(parameter: unknown): SQLInputValue {
  if (parameter === null || typeof parameter === 'string' || typeof parameter === 'number') return parameter;
  if (typeof parameter === 'bigint' || parameter instanceof Uint8Array) return parameter;
  if (typeof parameter === 'boolean') return parameter ? 1 : 0;
  throw new TypeError('a parameter of a statement is of a type that SQLite does not have');
}
