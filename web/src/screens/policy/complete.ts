// SPDX-License-Identifier: Apache-2.0
// Proposals for a policy document, from its JSON Schema (policies/policy.schema.json).
import { type Place, placeAt } from './yaml_path';

export type Schema = boolean | SchemaObject;
export interface SchemaObject {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string;
  description?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema;
  required?: string[];
  items?: Schema;
  enum?: unknown[];
  const?: unknown;
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
}

export interface Proposal {
  label: string;
  /** The inserted text. */
  apply: string;
  detail: string;
  info: string;
  required: boolean;
}

export interface Proposals {
  from: number;
  options: Proposal[];
}

const MAX_PARTS = 64;

/** The schema itself, what it refers to, and each of its alternatives. */
function parts(root: SchemaObject, schema: Schema | undefined): SchemaObject[] {
  const out: SchemaObject[] = [];
  const visit = (each: Schema | undefined): void => {
    if (typeof each !== 'object' || out.length >= MAX_PARTS || out.includes(each)) return;
    out.push(each);
    if (each.$ref?.startsWith('#/$defs/')) visit(root.$defs?.[each.$ref.slice('#/$defs/'.length)]);
    for (const list of [each.oneOf, each.anyOf, each.allOf]) list?.forEach(visit);
  };
  visit(schema);
  return out;
}

function step(root: SchemaObject, schemas: SchemaObject[], name: string): SchemaObject[] {
  const next: SchemaObject[] = [];
  for (const each of schemas) {
    const found = name === '[]' ? each.items : (each.properties?.[name] ?? each.additionalProperties);
    next.push(...parts(root, found));
  }
  return next;
}

export function schemasAt(root: SchemaObject, path: string[]): SchemaObject[] {
  return path.reduce((schemas, name) => step(root, schemas, name), parts(root, root));
}

function describe(schemas: SchemaObject[]): string {
  return schemas.map((each) => each.description).find((text) => text !== undefined) ?? '';
}

function shapeOf(schemas: SchemaObject[]): 'object' | 'array' | 'scalar' {
  if (schemas.some((each) => each.type === 'object' || each.properties !== undefined)) return 'object';
  return schemas.some((each) => each.type === 'array') ? 'array' : 'scalar';
}

function values(schemas: SchemaObject[]): string[] {
  const found = new Set<string>();
  for (const each of schemas) {
    each.enum?.forEach((value) => found.add(String(value)));
    if (each.const !== undefined) found.add(String(each.const));
    if (each.type === 'boolean') ['true', 'false'].forEach((value) => found.add(value));
  }
  return [...found];
}

function keys(root: SchemaObject, schemas: SchemaObject[], place: Place): Proposal[] {
  const names = new Map<string, boolean>();
  for (const each of schemas) {
    for (const name of Object.keys(each.properties ?? {})) {
      names.set(name, (names.get(name) ?? false) || (each.required?.includes(name) ?? false));
    }
  }
  return [...names].filter(([name]) => !place.present.includes(name)).map(([name, required]) => {
    const inner = step(root, schemas, name);
    const shape = shapeOf(inner);
    return {
      label: name, apply: `${name}: `, required,
      detail: required ? 'required' : shape === 'scalar' ? values(inner).join(' | ').slice(0, 60) : shape === 'array' ? 'list' : '',
      info: describe(inner),
    };
  });
}

/** Proposals at the offset `cursor` of `text`; none where the schema has nothing to say. */
export function propose(root: SchemaObject, text: string, cursor: number): Proposals | null {
  const place = placeAt(text, cursor);
  const schemas = schemasAt(root, place.path);
  const scalar = (label: string): Proposal => ({ label, apply: label, detail: '', info: describe(schemas), required: false });
  const options = place.kind === 'key'
    ? [...keys(root, schemas, place), ...(place.path.at(-1) === '[]' ? values(schemas).map(scalar) : [])]
    : values(schemas).map(scalar);
  const matching = options.filter((each) => each.label.toLowerCase().startsWith(place.word.toLowerCase()));
  return matching.length > 0 ? { from: place.from, options: matching } : null;
}

/** What the schema says about the member or value at `cursor`, for a tooltip. */
export function describeAt(root: SchemaObject, text: string, cursor: number): string {
  const end = cursor + (/^[A-Za-z0-9_.-]*:?/.exec(text.slice(cursor))?.[0].length ?? 0);
  const place = placeAt(text, end);
  const path = place.kind === 'key' && place.word ? [...place.path, place.word] : place.path;
  return describe(schemasAt(root, path));
}

/** The line, from 1, that an error of the service names, or null. */
export function lineOf(error: string): number | null {
  const found = /\bline (\d{1,6})\b/.exec(error);
  return found ? Number(found[1]) : null;
}
