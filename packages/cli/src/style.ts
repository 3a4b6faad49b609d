/** Colours, only where a terminal shows them and nobody has said no. */
import { styleText } from 'node:util';
import type { CommandIo } from './io.ts';

/** What a piece of text is, which decides its colour. */
export type Tone = 'plain' | 'heading' | 'good' | 'warn' | 'bad' | 'dim' | 'inverse';

const FORMATS = {
  heading: 'bold',
  good: 'green',
  warn: 'yellow',
  bad: 'red',
  dim: 'dim',
  inverse: 'inverse',
} as const;

/** Paints text for one descriptor of this process. */
export type Paint = (tone: Tone, text: string) => string;

/** `NO_COLOR` counts when it is not empty (no-color.org); a `dumb` terminal shows no colour. */
export function paintFor(io: CommandIo, descriptor: 1 | 2): Paint {
  const colours = io.isTerminal(descriptor) && (io.env['NO_COLOR'] ?? '') === '' && io.env['TERM'] !== 'dumb';
  return (tone, text) =>
    colours && tone !== 'plain' ? styleText(FORMATS[tone], text, { validateStream: false }) : text;
}
