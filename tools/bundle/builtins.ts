/**
 * A plugin that takes Node's `http` without its getters. An `import` of a built-in module reads every property of it, and
 * those of `http` load Node's own fetch and WebSocket: a third of what a program here takes to start, for nothing.
 */
import http from 'node:http';
import type { Plugin } from 'rolldown';

const MODULE = 'node:http';
const VIRTUAL = '\0plain:http';

/** Names of the properties that hold a value. */
function plainNames(): readonly string[] {
  const described = Object.entries(Object.getOwnPropertyDescriptors(http));
  return described.flatMap(([name, property]) =>
    property.get === undefined && /^[A-Za-z]\w*$/.test(name) ? name : [],
  );
}

/** What a bundle leaves to Node without this plugin. */
export const builtins = /^node:(?!http$)/;

/** Replaces `import` of `node:http`; `require` is as it was, since it reads no property. */
export function plainHttp(): Plugin {
  return {
    name: 'plain-http',
    resolveId: (source, _importer, { kind }) => {
      if (source !== MODULE) return null;
      return kind === 'import-statement' ? VIRTUAL : { id: MODULE, external: true };
    },
    load: (id) =>
      id === VIRTUAL
        ? `const http = process.getBuiltinModule('${MODULE}');\nexport default http;\nexport const { ${plainNames().join(', ')} } = http;\n`
        : null,
  };
}
