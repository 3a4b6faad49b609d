import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { directoriesOf, revisionOf, type Skill, treesOf } from '../src/skills/skill-tree.ts';

const word = fc.oneof(
  fc.constantFrom('a', 'b', 'c', '.', '..', '', 'SKILL.md'),
  fc.string({ unit: 'binary', maxLength: 6 }),
);
const path = fc.array(word, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));
const skill: fc.Arbitrary<Skill> = fc
  .tuple(path, fc.array(fc.record({ path, content: fc.string() }), { maxLength: 4 }))
  .map(([instance_slug, files]) => ({
    instance_slug,
    files,
    display_name: '',
    description: '',
    source_type: '',
    skill_path: '',
    entrypoints: [],
  }));

describe('skills as files', () => {
  it('stay below their own directories, each file in a directory that is made, or are refused', () => {
    let accepted = 0;
    fc.assert(
      fc.property(fc.array(skill, { maxLength: 4 }), (skills) => {
        let trees: ReturnType<typeof treesOf>;
        try {
          trees = treesOf(skills);
        } catch (error) {
          expect(error).toMatchObject({ code: 'bad_request' });
          return;
        }
        accepted += 1;
        const directories = directoriesOf(trees, skills);
        const files = [...trees].flatMap(([top, tree]) => [...tree.keys()].map((name) => [top, name] as const));
        for (const name of [...directories, ...files.map(([, file]) => file)]) {
          expect(
            name.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !part.includes('\0')),
          ).toBe(true);
          expect(name.startsWith('.boxkite-')).toBe(false);
        }
        for (const [top, file] of files) {
          expect(file.startsWith(`${top}/`)).toBe(true);
          expect(directories).toContain(file.slice(0, file.lastIndexOf('/')));
          expect(directories).not.toContain(file);
        }
        // A directory comes after the one that it is in.
        for (const [index, name] of directories.entries()) {
          const above = name.slice(0, Math.max(0, name.lastIndexOf('/')));
          if (above !== '') expect(directories.slice(0, index)).toContain(above);
        }
      }),
      { numRuns: 5000 },
    );
    expect(accepted).toBeGreaterThan(100);
  });

  it('are called the same in any order, and otherwise with any other content', () => {
    const one: Skill = {
      instance_slug: 'a',
      display_name: 'A',
      description: '',
      source_type: '',
      skill_path: '',
      entrypoints: [
        { path: 'x', runtime: 'python', name: 'x', description: '' },
        { path: 'y', runtime: 'python', name: 'y', description: '' },
      ],
      files: [
        { path: 'x', content: '1' },
        { path: 'y', content: '2' },
      ],
    };
    const two = { ...one, instance_slug: 'b' };
    const mixed = { ...one, entrypoints: [...one.entrypoints].reverse(), files: [...one.files].reverse() };
    expect(revisionOf([two, mixed])).toBe(revisionOf([one, two]));
    const others: readonly Skill[] = [
      { ...one, description: 'other' },
      {
        ...one,
        files: [
          { path: 'x', content: '12' },
          { path: 'y', content: '' },
        ],
      },
      { ...one, entrypoints: [] },
    ];
    expect(new Set([one, ...others].map((other) => revisionOf([other]))).size).toBe(4);
  });
});
