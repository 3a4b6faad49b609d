/** The page docs/reference/errors.md, made from the registry, so that neither can say what the other does not. */
import type { ErrorEntry } from '@boxkite/protocol';

/** The whole page, newline at its end. */
export function errorReference(registry: Readonly<Record<string, ErrorEntry>>): string {
  const rows = Object.entries(registry).map(([code, entry]) => {
    const hint = entry.hint.replaceAll('|', '\\|');
    return `| \`${code}\` | ${entry.status} | ${entry.retryable ? 'yes' : 'no'} | ${hint} |`;
  });
  return [
    '# Errors',
    '',
    'Every failure carries one of these codes. Act on `code`, never on the message. *Status* is the HTTP status where the',
    'failure travels over HTTP; *retryable* says that the same call may work later and that nothing of the failed one is',
    'left. This page is written by `make docs` from the registry in `packages/protocol/src/errors.ts`.',
    '',
    '| code | status | retryable | what to do |',
    '|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}
