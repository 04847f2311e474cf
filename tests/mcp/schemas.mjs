// SPDX-License-Identifier: Apache-2.0
// node schemas.mjs FILE: prints {version: JSON Schema} of the protocol. The conformance suite has
// the schemas inside its bundle as object literals, and a table of their names by version.
import { readFileSync } from 'node:fs';
import vm from 'node:vm';

const text = readFileSync(process.argv[2], 'utf8');

// The end of the object literal beginning at `start`; braces within strings do not count.
function literal(start) {
  let depth = 0;
  for (let at = start; at < text.length; ++at) {
    const c = text[at];
    if (c === '"' || c === "'" || c === '`') {
      for (++at; text[at] !== c; ++at) {
        if (text[at] === '\\') ++at;
      }
    } else if (c === '{') {
      ++depth;
    } else if (c === '}' && --depth === 0) {
      return text.slice(start, at + 1);
    }
  }
  throw new Error('a literal without an end');
}

const table = /[,; ]\w+=\{"2025-03-26":(\w+),"2025-06-18":(\w+),"2025-11-25":(\w+),[^:{}]+:(\w+)\}/.exec(text);
if (!table) throw new Error('no table of schemas in ' + process.argv[2]);
const versions = ['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'];
const schemas = {};
versions.forEach((version, index) => {
  const found = new RegExp(`[,; ]${table[index + 1]}=\\{\\$schema`).exec(text);
  if (!found) throw new Error('no schema of ' + version);
  schemas[version] = vm.runInNewContext(`(${literal(text.indexOf('{', found.index))})`);
});
process.stdout.write(JSON.stringify(schemas));
