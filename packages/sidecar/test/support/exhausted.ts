/**
 * A process of its own that decodes images while it has so many descriptors left as its arguments say, and again when it
 * has enough. Writes what became of each, as JSON.
 */
import { BoxkiteError } from '@boxkite/protocol';
import { makePng, takeDescriptors } from '@boxkite/testing';
import { ImageHelper } from '../../src/images/image-helper.ts';

const [, , runner = '', ...left] = process.argv;
const images = new ImageHelper(runner);
const job = { codec: 'png', maxDimension: 64, jpegQuality: 85, webpQuality: 80, pngCompression: 6 } as const;
const png = makePng(128, 128);

async function outcome(): Promise<unknown> {
  try {
    return (await images.optimise(job, png, new AbortController().signal)) === null ? 'as it is' : 'smaller';
  } catch (error) {
    return error instanceof BoxkiteError ? [error.code, error.details] : String(error);
  }
}

const outcomes: unknown[] = [];
for (const but of left) {
  const taken = takeDescriptors(Number(but));
  outcomes.push(await outcome());
  taken[Symbol.dispose]();
}
outcomes.push(await outcome());
process.stdout.write(JSON.stringify(outcomes));
