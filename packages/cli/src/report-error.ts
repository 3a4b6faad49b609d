import { BoxkiteFailure } from '@boxkite/protocol';
import { printable } from './text.ts';

/** An error for people: one line of what is wrong with its code, one of what to do. No stack. */
export function describeError(error: unknown): string {
  if (error instanceof BoxkiteFailure)
    return `boxkite: ${printable(error.message)} (${error.code})\nhint: ${printable(error.hint)}\n`;
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return `boxkite: a fault in boxkite: ${printable(message)} (internal)\nhint: Please report it.\n`;
}

/** The same as the wire's shape. */
export function errorBody(error: unknown): object {
  if (error instanceof BoxkiteFailure) return error.toJSON();
  const message = error instanceof Error ? error.message : String(error);
  return { error: { code: 'internal', message, hint: 'Please report it.', retryable: false, details: {} } };
}
