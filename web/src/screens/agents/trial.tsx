// SPDX-License-Identifier: Apache-2.0
// What a change of an agent's rules would have done to its stored requests, as the engine decided.
import { Badge, IdLink, Untrusted } from '../kit';
import { EffectBadge } from '../policy/decision';
import type { AgentDryRun, DryRunDecision } from './types';

const BY: Record<DryRunDecision['by'], string> = { agent: "the agent's rules", policy: 'the policy', safe_operations: 'the safe operations' };

const WHY: Record<string, string> = {
  forgotten: 'retention removed them', illegible: 'their text cannot be read', 'unknown language': 'their language is unknown now',
  'session gone': 'their session is gone', "another's session": "they ran in another agent's session",
};

function Decision({ decision }: { decision: DryRunDecision }) {
  return (
    <span>
      <EffectBadge effect={decision.decision} /> by {BY[decision.by] ?? decision.by}{decision.rule && <>: <Untrusted value={decision.rule} mono cut={200} /></>}
    </span>
  );
}

export function Trial({ answer }: { answer: AgentDryRun }) {
  const changed = answer.groups.filter((each) => each.decision_changes);
  const why = Object.entries(answer.not_replayable_why).map(([reason, count]) => `${count}: ${WHY[reason] ?? reason}`).join('; ');
  return (
    <section class="stack" aria-label="Trial on stored requests">
      <p data-testid="dry-run">
        {answer.replayed === 0
          ? 'The agent has no stored request that can be tried.'
          : `Of the last ${answer.replayed} requests of the agent, ${answer.changed} would be decided otherwise.`}
        {answer.not_replayable > 0 && ` ${answer.not_replayable} can no longer be replayed (${why}).`}
      </p>
      {answer.replayed > 0 && (
        <table class="plain">
          <thead><tr><th scope="col"><span class="sr">When</span></th><th scope="col">Allowed</th><th scope="col">Need approval</th><th scope="col">Denied</th></tr></thead>
          <tbody>
            {(['before', 'after'] as const).map((when) => (
              <tr key={when}><th scope="row">{when === 'before' ? 'Now' : 'Then'}</th><td>{answer[when].allow}</td><td>{answer[when].approve}</td><td>{answer[when].deny}</td></tr>
            ))}
          </tbody>
        </table>
      )}
      {changed.length > 0 && (
        <div class="scroll-x">
          <table class="plain">
            <thead><tr><th scope="col">Requests</th><th scope="col">Now</th><th scope="col">Then</th><th scope="col">Examples</th></tr></thead>
            <tbody>
              {changed.map((group, index) => (
                <tr key={index}>
                  <td class="number">{group.count}</td>
                  <td><Decision decision={group.from} /></td>
                  <td><Decision decision={group.to} /><div class="muted"><Untrusted value={group.reason} cut={300} /></div></td>
                  <td>{group.examples.map((id) => <div key={id}><IdLink id={id} /></div>)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {answer.replayed > 0 && changed.length === 0 && <p><Badge tone="neutral">no change</Badge> Each request would come out as before.</p>}
    </section>
  );
}
