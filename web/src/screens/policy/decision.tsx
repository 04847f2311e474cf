// SPDX-License-Identifier: Apache-2.0
// A decision of the policy in a few words, and the replay of a change over recorded requests.
import { Badge, IdLink, Untrusted } from '../kit';
import type { Effect, Outcome, PolicyDiff } from './types';

const TONE: Record<Effect, 'ok' | 'bad' | 'warn'> = { allow: 'ok', deny: 'bad', approve: 'warn' };
const WORD: Record<Effect, string> = { allow: 'allowed', deny: 'denied', approve: 'needs approval' };

export function EffectBadge({ effect }: { effect: Effect }) {
  return <Badge tone={TONE[effect] ?? 'neutral'}>{WORD[effect] ?? effect}</Badge>;
}

export function OutcomeText({ outcome }: { outcome: Outcome }) {
  const more = [outcome.tier, outcome.runtime].filter(Boolean).join(', ');
  return (
    <span>
      <EffectBadge effect={outcome.decision} /> {outcome.rule ? <>by <Untrusted value={outcome.rule} mono /></> : 'by no rule'}
      {more && <span class="muted"> ({more})</span>}
    </span>
  );
}

/** What a change would have done, grouped by rule and decision. */
export function Replay({ diff }: { diff: PolicyDiff }) {
  const { replay } = diff;
  const changed = replay.groups.reduce((sum, group) => sum + group.count, 0);
  return (
    <section aria-label="Replay of recorded requests">
      <p data-testid="replay-summary">
        {replay.requests === 0
          ? 'No recorded request can be tried. Run something first, or apply the change without a trial.'
          : `Of the last ${replay.requests} recorded requests, ${changed} would be decided otherwise.`}
        {replay.unreadable > 0 && ` ${replay.unreadable} can no longer be replayed.`}
      </p>
      {replay.groups.length > 0 && (
        <div class="scroll-x">
          <table class="plain">
            <thead><tr><th scope="col">Requests</th><th scope="col">Now</th><th scope="col">Then</th><th scope="col">Examples</th></tr></thead>
            <tbody>
              {replay.groups.map((group, index) => (
                <tr key={index} class={group.decision_changes ? 'decision-changes' : ''}>
                  <td class="number">{group.count}</td>
                  <td><OutcomeText outcome={group.from} /></td>
                  <td><OutcomeText outcome={group.to} /><div class="muted"><Untrusted value={group.reason} cut={300} /></div></td>
                  <td>{group.examples.map((id) => <div key={id}><IdLink id={id} /></div>)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** Rules and settings that differ. */
export function RuleChanges({ diff }: { diff: PolicyDiff }) {
  if (diff.same) return <p>Both documents are the same.</p>;
  const rows: [string, string[]][] = [
    ['Added', diff.added], ['Removed', diff.removed], ['Changed', diff.changed.map((each) => each.name)],
  ];
  return (
    <ul class="list">
      {rows.filter(([, names]) => names.length > 0).map(([word, names]) => (
        <li key={word}>{word}: {names.map((name, i) => <>{i > 0 && ', '}<Untrusted value={name} mono /></>)}</li>
      ))}
      {diff.reordered && <li>The order of the rules changed.</li>}
      {diff.settings_changed && <li>The risk points or the tiers changed.</li>}
      {rows.every(([, names]) => names.length === 0) && !diff.reordered && !diff.settings_changed &&
        <li>Only the text changed. The rules are the same.</li>}
    </ul>
  );
}
