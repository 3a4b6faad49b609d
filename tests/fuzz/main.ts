/**
 * `make fuzz`: random input for each decision, FUZZ_SECONDS in all (20). The seed is printed; FUZZ_SEED repeats a run.
 * Exits 1 at the first input of which something doesn't hold.
 */
import { policyTargets } from './policy.ts';
import { sequence } from './target.ts';

const seconds = Number(process.env['FUZZ_SECONDS'] ?? '20');
const seed = Number(process.env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 32));
if (!(seconds > 0) || !Number.isInteger(seed))
  throw new Error('FUZZ_SECONDS is a number of seconds, FUZZ_SEED a whole number');

console.log(`fuzz: ${seconds} s, FUZZ_SEED=${seed}`);
for (const target of policyTargets) {
  const random = sequence(seed);
  const end = performance.now() + (seconds * 1000) / policyTargets.length;
  let count = 0;
  try {
    for (; performance.now() < end; count += 1) target.once(random);
  } catch (error) {
    console.error(
      `fuzz: ${target.name}, input ${count + 1}: ${error instanceof Error ? error.message : String(error)}`,
    );
    process.exitCode = 1;
  }
  console.log(`fuzz: ${target.name.padEnd(20)} ${count} inputs`);
}
