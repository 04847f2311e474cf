// SPDX-License-Identifier: Apache-2.0
// An audit entry as a sentence, in the words of `cloister audit list` (src/cli/render/audit_text.cc).
import type { AuditEntry } from './types';

/** WHO `verb` SUBJECT, then the present members of the details. */
interface Phrase {
  verb: string;
  shown: readonly string[];
}

const phrase = (verb: string, ...shown: string[]): Phrase => ({ verb, shown });

export const PHRASES: Readonly<Record<string, Phrase>> = {
  'agent.created': phrase('made the sandbox of'),
  'agent.deleted': phrase('deleted the sandbox of'),
  'agent.lowered': phrase('caused a lower level of', 'from', 'to'),
  'agent.runtime_removed': phrase('removed the runtime of'),
  'agent.runtime_set': phrase('set the runtime of', 'runtime'),
  'agent.updated': phrase('changed', 'changed'),
  'agent.violation': phrase('was refused as', 'operation', 'what', 'rule'),
  'artifact.created': phrase('uploaded', 'path'),
  'artifact.deleted': phrase('deleted', 'path'),
  'artifact.key_destroyed': phrase('destroyed the key of'),
  'artifact.refused': phrase('could not keep', 'path', 'reason'),
  'artifact.withheld': phrase('withheld a file of', 'path', 'secret'),
  'audit.redacted': phrase('redacted', 'member', 'reason'),
  'dlp.matched': phrase('matched a rule for data in', 'rule', 'action', 'place', 'path'),
  'escalation.approved': phrase('approved', 'operation', 'what'),
  'escalation.denied': phrase('denied', 'operation', 'what', 'reason'),
  'escalation.expired': phrase('let expire', 'operation', 'what'),
  'escalation.notification_failed': phrase('could not send a notification of', 'channel', 'event', 'reason'),
  'escalation.policy_set': phrase('set the escalation policy of'),
  'escalation.requested': phrase('requested', 'operation', 'what'),
  'escalation.used': phrase('used', 'operation', 'what'),
  'escalation.vote_refused': phrase('may not decide on', 'decision', 'operation', 'what', 'reason'),
  'escalation.votes_revoked': phrase('lost votes on', 'approvals', 'quorum', 'credentials'),
  'escalation.withdrawn': phrase('no longer needs', 'operation', 'what'),
  'execution.accepted': phrase('began', 'language', 'rule'),
  'execution.blocked': phrase('has to wait for approval of', 'rule'),
  'execution.cancel_requested': phrase('cancelled'),
  'execution.denied': phrase('was denied', 'reason'),
  'execution.finished': phrase('finished', 'status', 'exit_code', 'error'),
  'execution.resumed': phrase('resumed', 'escalation'),
  'execution.revoked': phrase('lost permissions in', 'ended'),
  'execution.started': phrase('got a sandbox for', 'node'),
  'file.directory_made': phrase('made a directory in', 'arguments', 'incomplete'),
  'file.moved': phrase('moved a file in', 'arguments', 'incomplete'),
  'file.removed': phrase('removed a file in', 'arguments', 'incomplete'),
  'file.unpacked': phrase('unpacked files in', 'arguments', 'incomplete'),
  'file.written': phrase('wrote a file in', 'arguments', 'incomplete'),
  'image.changed': phrase('found that the image changed to', 'node'),
  'image.not_verified': phrase('could not verify the image of executions', 'node'),
  'image.verified': phrase('verified the image of executions', 'digest'),
  'kernel.ended': phrase('ended an interpreter of', 'kernel'),
  'kernel.restarted': phrase('restarted an interpreter of', 'kernel'),
  'kernel.started': phrase('started an interpreter in', 'kernel', 'language'),
  'key.created': phrase('created', 'name'),
  'key.revoked': phrase('revoked', 'name'),
  'key.rotated': phrase('rotated', 'name'),
  'layer.evicted': phrase('evicted the dependency layer', 'ecosystem'),
  'layer.made': phrase('made the dependency layer', 'ecosystem', 'packages'),
  'layer.pruned': phrase('pruned the dependency layer', 'ecosystem'),
  'ledger.anchored': phrase('anchored the ledger', 'reason'),
  'ledger.recovered': phrase('recovered', 'problem'),
  'ledger.renumbered': phrase('numbered the log anew'),
  'ledger.retained': phrase('applied retention to', 'archived', 'deleted'),
  'mcp_server.added': phrase('added the MCP server', 'name'),
  'mcp_server.called': phrase('called the MCP server', 'name', 'tool'),
  'mcp_server.removed': phrase('removed the MCP server', 'name'),
  'memory.deleted': phrase('deleted from the memory of', 'key'),
  'memory.set': phrase('kept in the memory of', 'key', 'size'),
  'network.attempts': phrase('tried to reach the network from'),
  'network.planned': phrase('planned the network of', 'why', 'tier'),
  'policy.applied': phrase('applied policy', 'note'),
  'policy.rolled_back': phrase('rolled back to policy', 'note'),
  'quota.set': phrase('set', 'quota'),
  'secret.deleted': phrase('deleted'),
  'secret.set': phrase('set', 'version'),
  'secret.used': phrase('used secrets in'),
  'session.amended': phrase('changed', 'changed'),
  'session.created': phrase('began', 'language'),
  'session.ended': phrase('ended', 'reason'),
  'session.image_verified': phrase('verified the image of'),
  'session.moved': phrase('moved', 'runtime'),
  'session.opened': phrase('gave more to one program in', 'runtime'),
  'session.paused': phrase('paused'),
  'session.refused': phrase('was refused in', 'doing', 'missing'),
  'session.renewed': phrase('renewed'),
  'session.resumed': phrase('resumed', 'escalation'),
  'session.rules_applied': phrase('applied the agent\'s rules to', 'runtime'),
  'session.started': phrase('got a sandbox for', 'node'),
  'session.unpaused': phrase('resumed'),
  'snapshot.created': phrase('took'),
  'snapshot.deleted': phrase('deleted'),
  'tool.changed': phrase('changed the tool', 'name'),
  'tool.created': phrase('added the tool', 'name'),
  'tool.deleted': phrase('deleted the tool', 'name'),
  'ui.sign_in_refused': phrase('refused a sign-in in', 'by', 'reason'),
  'ui.signed_in': phrase('signed in with', 'by'),
  'ui.sign_in_ended': phrase('ended the sign-in', 'user'),
  'ui.signed_out': phrase('signed out of', 'reason'),
};

export interface Sentence {
  who: string;
  verb: string;
  subject: string;
  /** In brackets behind the subject; the empty string for none. */
  shown: string;
  rest: string;
}

type Details = Record<string, unknown>;

function textOf(object: Details, member: string): string {
  const value = object[member];
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : '';
}

function objectOf(object: Details, member: string): Details {
  const value = object[member];
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Details) : {};
}

/** The values of an object, as "concurrent 4, memory_mb 512"; "none" for an empty one. */
function valuesOf(object: Details): string {
  const given = Object.keys(object).filter((name) => object[name] !== null);
  return given.map((name) => `${name} ${textOf(object, name)}`).join(', ') || 'none';
}

function shownOf(details: Details, members: readonly string[]): string {
  return members.map((member) => {
    const value = details[member];
    if (member === 'quota') return valuesOf(objectOf(details, member));
    return Array.isArray(value) ? value.filter((each) => typeof each === 'string').join(', ') : textOf(details, member);
  }).filter(Boolean).join(' ');
}

/** The paths of a file operation; its further arguments are switches. */
function withPaths(entry: AuditEntry): Details {
  const given = entry.details['arguments'];
  if (!entry.action.startsWith('file.') || !Array.isArray(given)) return entry.details;
  return { ...entry.details, arguments: given.slice(0, entry.action === 'file.moved' ? 2 : 1).filter(Boolean) };
}

function forOf(entry: AuditEntry, who: string): string {
  const agent = textOf(objectOf(entry.details, 'requester'), 'agent') || entry.agent;
  return agent && agent !== who ? ` for agent ${agent}` : '';
}

function boundaryOf(details: Details, who: string): string {
  if (!('session_agent' in details)) return '';
  const agent = textOf(details, 'session_agent');
  return `: the session is of ${agent ? `agent ${agent}` : 'no agent'}, and lets programs do more than ${who} may`;
}

function struckOf(details: Details): string {
  const votes = details['revoked_credentials'];
  const names = Array.isArray(votes) ? votes.filter((each) => typeof each === 'string') : [];
  return names.length > 0 ? `; the votes of revoked credentials no longer count: ${names.join(', ')}` : '';
}

/** `namesTenant`: the sentence ends with the entry's tenant. */
export function sentenceOf(entry: AuditEntry, namesTenant: boolean): Sentence {
  const who = entry.user || entry.agent || entry.key || 'cloister';
  const found = Object.hasOwn(PHRASES, entry.action) ? PHRASES[entry.action] : undefined;
  const tenant = namesTenant && entry.tenant ? ` in tenant ${entry.tenant}` : '';
  return {
    who,
    verb: found?.verb ?? entry.action,
    subject: entry.subject,
    shown: found ? shownOf(withPaths(entry), found.shown) : '',
    rest: boundaryOf(entry.details, who) + forOf(entry, who) + tenant + struckOf(entry.details),
  };
}

export function sentenceText(entry: AuditEntry, namesTenant: boolean): string {
  const { who, verb, subject, shown, rest } = sentenceOf(entry, namesTenant);
  return `${who} ${verb}${subject ? ` ${subject}` : ''}${shown ? ` (${shown})` : ''}${rest}`;
}
