/**
 * A plugin that escapes what ASCII lacks. V8 holds the text of a module for as long as it lives, by two bytes for each
 * character where a single one of them needs two: megabytes in each process.
 */
import type { Plugin } from 'rolldown';

/** In strings, templates and regular expressions the escape means the same; elsewhere such characters are comments. */
function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** The same program without such characters. */
export function asciiOnly(code: string): string {
  // By code units: a pair of surrogates stays one, also in a regular expression with the flag `u`.
  return code.replaceAll(/[\u0080-\uffff]/g, escaped);
}

/** Of every chunk as it is written. */
export function oneByte(): Plugin {
  return {
    name: 'one-byte',
    generateBundle: (_options, bundle) => {
      for (const output of Object.values(bundle)) {
        if (output.type === 'chunk') output.code = asciiOnly(output.code);
      }
    },
  };
}
