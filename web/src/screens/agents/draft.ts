// SPDX-License-Identifier: Apache-2.0
// A draft of an agent's rules, and the update that makes the sandbox equal to it. Only what a person changed is sent,
// so the change of another person to another member stays.
import {
  type AgentLimits, type AgentSandbox, type AgentUpdate, type LimitName, LIMITS, type Operation, OPERATIONS,
  type ParameterRestriction, RULE_LISTS, type RuleList,
} from './types';

export type Grant = 'level' | 'granted' | 'revoked';

export interface Draft extends Record<RuleList, string[]> {
  level: string;
  operations: Record<Operation, Grant>;
  parameter_restrictions: ParameterRestriction[];
  whitelist_mode: boolean;
  nested: boolean;
  limits: Record<LimitName, number | null>;
}

function grantOf(sandbox: AgentSandbox, operation: Operation): Grant {
  if (sandbox.revoked_operations.includes(operation)) return 'revoked';
  return sandbox.granted_operations.includes(operation) ? 'granted' : 'level';
}

export function draftOf(sandbox: AgentSandbox): Draft {
  const lists = Object.fromEntries(RULE_LISTS.map((name) => [name, [...sandbox[name]]])) as Record<RuleList, string[]>;
  return {
    ...lists,
    level: sandbox.level,
    operations: Object.fromEntries(OPERATIONS.map((each) => [each, grantOf(sandbox, each)])) as Record<Operation, Grant>,
    parameter_restrictions: structuredClone(sandbox.parameter_restrictions),
    whitelist_mode: sandbox.whitelist_mode,
    nested: sandbox.nested,
    limits: Object.fromEntries(LIMITS.map(([name]) => [name, sandbox.limits[name] ?? null])) as Record<LimitName, number | null>,
  };
}

/** One entry a line, without blanks and repetitions. */
export function linesOf(text: string): string[] {
  return [...new Set(text.split('\n').map((line) => line.trim()).filter(Boolean))];
}

/** A limit as a person typed it: a whole number, null for the level's, or undefined for a text that is no limit. */
export function limitOf(text: string): number | null | undefined {
  const typed = text.trim();
  if (typed === '') return null;
  const value = Number(typed);
  return /^[0-9]+$/.test(typed) && Number.isSafeInteger(value) && value >= 1 ? value : undefined;
}

function missing(from: string[], others: string[]): string[] {
  return from.filter((each) => !others.includes(each));
}

function changedLimits(sandbox: AgentSandbox, draft: Draft): AgentLimits {
  const changed: AgentLimits = {};
  for (const [name] of LIMITS) {
    if (draft.limits[name] !== (sandbox.limits[name] ?? null)) changed[name] = draft.limits[name];
  }
  return changed;
}

function changedRestrictions(sandbox: AgentSandbox, draft: Draft): [ParameterRestriction[], string[]] {
  const before = new Map(sandbox.parameter_restrictions.map((each) => [each.command, JSON.stringify(each)]));
  const set = draft.parameter_restrictions.filter((each) => before.get(each.command) !== JSON.stringify(each));
  const kept = draft.parameter_restrictions.map((each) => each.command);
  return [set, missing([...before.keys()], kept)];
}

function filled<T extends object>(object: T): T | undefined {
  return Object.keys(object).length > 0 ? object : undefined;
}

/** The update from `sandbox` to `draft`, without members that stay; an empty object where nothing changes. */
export function updateOf(sandbox: AgentSandbox, draft: Draft): AgentUpdate {
  const add: NonNullable<AgentUpdate['add']> = {};
  const remove: NonNullable<AgentUpdate['remove']> = {};
  for (const name of RULE_LISTS) {
    const more = missing(draft[name], sandbox[name]);
    const less = missing(sandbox[name], draft[name]);
    if (more.length > 0) add[name] = more;
    if (less.length > 0) remove[name] = less;
  }
  const [set, gone] = changedRestrictions(sandbox, draft);
  if (set.length > 0) add.parameter_restrictions = set;
  if (gone.length > 0) remove.parameter_restrictions = gone;
  const moved = OPERATIONS.filter((each) => draft.operations[each] !== grantOf(sandbox, each));
  const update: AgentUpdate = {
    level: draft.level === sandbox.level ? undefined : draft.level,
    add: filled(add),
    remove: filled(remove),
    grant: nonEmpty(moved.filter((each) => draft.operations[each] === 'granted')),
    revoke: nonEmpty(moved.filter((each) => draft.operations[each] === 'revoked')),
    whitelist_mode: draft.whitelist_mode === sandbox.whitelist_mode ? undefined : draft.whitelist_mode,
    nested: draft.nested === sandbox.nested ? undefined : draft.nested,
    limits: filled(changedLimits(sandbox, draft)),
  };
  return Object.fromEntries(Object.entries(update).filter(([, value]) => value !== undefined)) as AgentUpdate;
}

function nonEmpty<T>(list: T[]): T[] | undefined {
  return list.length > 0 ? list : undefined;
}

/** What an update does, one sentence each. */
export function changesInWords(update: AgentUpdate): string[] {
  const out: string[] = [];
  if (update.level !== undefined) out.push(`The level becomes ${update.level}.`);
  for (const each of update.grant ?? []) out.push(`The operation ${each} is granted.`);
  for (const each of update.revoke ?? []) out.push(`The operation ${each} is revoked.`);
  for (const name of RULE_LISTS) {
    for (const each of update.add?.[name] ?? []) out.push(`${LIST_WORDS[name]} gets "${each}".`);
    for (const each of update.remove?.[name] ?? []) out.push(`${LIST_WORDS[name]} loses "${each}".`);
  }
  for (const each of update.add?.parameter_restrictions ?? []) out.push(`The program ${each.command} gets these restrictions.`);
  for (const each of update.remove?.parameter_restrictions ?? []) out.push(`The program ${each} loses its restrictions.`);
  if (update.whitelist_mode !== undefined) {
    out.push(update.whitelist_mode ? 'The allowed commands of the level no longer count.' : 'The allowed commands of the level count again.');
  }
  if (update.nested !== undefined) {
    out.push(update.nested ? 'Tools in a session get sandboxes of their own.' : 'Tools in a session share its sandbox.');
  }
  for (const [name, label, unit] of LIMITS) {
    const value = update.limits?.[name];
    if (value === undefined) continue;
    out.push(value === null ? `${label}: the level's limit applies.` : `${label}: at most ${value}${unit && unit !== '%' && unit !== '/min' ? ' ' : ''}${unit}.`);
  }
  return out;
}

export const LIST_WORDS: Record<RuleList, string> = {
  allowed_commands: 'Allowed commands',
  forbidden_commands: 'Forbidden commands',
  forbidden_paths: 'Forbidden paths',
  dangerous_patterns: 'Dangerous patterns',
};

/** Back to the level: the route has no member that takes a grant or revocation back, so such a change cannot be sent. */
export function grantsTakenBack(sandbox: AgentSandbox, draft: Draft): Operation[] {
  return OPERATIONS.filter((each) => draft.operations[each] === 'level' && grantOf(sandbox, each) !== 'level');
}
