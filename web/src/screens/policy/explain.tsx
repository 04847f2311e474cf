// SPDX-License-Identifier: Apache-2.0
// How a policy decides one request, with each rule and each point of the score.
import { useState } from 'preact/hooks';
import { api, ErrorBox, Field, Untrusted, useAction, useLoad } from '../kit';
import { EffectBadge, OutcomeText } from './decision';
import type { PolicyExplanation } from './types';

const LANGUAGES = ['python', 'bash', 'node'];  // until the service has named its own
const NETWORKS = ['none', 'restricted', 'internal', 'api', 'full'];
const OPERATIONS = ['run', 'session', 'exec', 'files', 'kernel'];

const LABELS = {
  'request.language': 'Language', 'request.code': 'Code', 'request.command': 'Command', 'request.network_policy': 'Network', 'request.deps': 'Packages', operation: 'Operation',
  'principal.tenant': 'Tenant', 'principal.agent': 'Agent', 'principal.user': 'User', 'principal.roles': 'Roles', document: 'Policy document',
};

export interface Question {
  language: string;
  code: string;
  network: string;
  deps: string;
  tenant: string;
  agent: string;
  user: string;
  roles: string;
  operation: string;
}

export const EMPTY: Question = { language: 'bash', code: '', network: 'none', deps: '', tenant: '', agent: '', user: '', roles: '', operation: 'run' };

function words(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

function bodyOf(question: Question, document: string | undefined): object {
  const { language, code, network, deps, tenant, agent, user, roles, operation } = question;
  const program = language === 'command' ? { command: code } : { language, code };
  const principal = Object.fromEntries(Object.entries({ tenant, agent, user }).filter(([, value]) => value !== ''));
  const named = roles.trim() ? { ...principal, roles: words(roles) } : principal;
  return {
    request: {
      ...program,
      ...(network === 'none' ? {} : { network_policy: { tier: network } }),
      ...(deps.trim() ? { deps: words(deps) } : {}),
    },
    operation,
    ...(operation === 'run' || operation === 'session' ? {} : { session: true }),
    ...(Object.keys(named).length > 0 ? { principal: named } : {}),
    ...(document === undefined ? {} : { document }),
  };
}

export interface ExplainDraft {
  question: Question;
  /** Whether a changed document in the editor is asked, in place of the policy in force. */
  ofDraft: boolean;
}

export interface ExplainProps {
  kept: ExplainDraft;
  onKeep(kept: ExplainDraft): void;
  /** The document in the editor, if the person changed it. */
  draft: string | undefined;
  mayName: boolean;
}

/** Which document answers, in words. */
export function sourceText(ofDraft: boolean): string {
  return ofDraft ? 'Answered by the document in the editor, which is not in force.' : 'Answered by the policy in force.';
}

export function Explain({ kept, onKeep, draft, mayName }: ExplainProps) {
  const { question } = kept;
  const languages = useLoad<{ languages: { name: string }[] }>('/v1/languages', []);
  const names = ['command', ...(languages.data?.languages.map((one) => one.name) ?? LANGUAGES)];
  const [answer, setAnswer] = useState<{ of: string; found: PolicyExplanation } | null>(null);
  const asking = useAction();
  const set = (name: keyof Question) => (event: { currentTarget: { value: string } }) =>
    onKeep({ ...kept, question: { ...question, [name]: event.currentTarget.value } });
  const ask = (event: Event): void => {
    event.preventDefault();
    void asking.run(async () => {
      setAnswer(null);
      const document = kept.ofDraft ? draft : undefined;
      const found = await api.post<PolicyExplanation>('/v1/policies:explain', bodyOf(question, document));
      setAnswer({ of: sourceText(document !== undefined), found });
    });
  };
  return (
    <div class="halves">
      <form class="stack" onSubmit={ask} aria-label="Request to explain">
        <div class="row">
          <Field label="Language"><select value={question.language} onChange={set('language')}>{names.map((each) => <option key={each}>{each}</option>)}</select></Field>
          <Field label="Operation"><select value={question.operation} onChange={set('operation')}>{OPERATIONS.map((each) => <option key={each}>{each}</option>)}</select></Field>
          <Field label="Network"><select value={question.network} onChange={set('network')}>{NETWORKS.map((each) => <option key={each}>{each}</option>)}</select></Field>
        </div>
        <Field label={question.language === 'command' ? 'Command' : 'Code'}>
          <textarea class="mono" rows={6} spellcheck={false} required value={question.code} onInput={set('code')} />
        </Field>
        <Field label="Packages" hint="Names, separated by spaces."><input value={question.deps} onInput={set('deps')} /></Field>
        <div class="row">
          {mayName && <Field label="Tenant"><input value={question.tenant} onInput={set('tenant')} /></Field>}
          <Field label="Agent"><input value={question.agent} onInput={set('agent')} /></Field>
          <Field label="User"><input value={question.user} onInput={set('user')} /></Field>
          <Field label="Roles"><input value={question.roles} onInput={set('roles')} placeholder="agent" /></Field>
        </div>
        {draft !== undefined && (
          <label class="check-label"><input type="checkbox" checked={kept.ofDraft} onChange={() => onKeep({ ...kept, ofDraft: !kept.ofDraft })} /> Ask the document in the editor</label>
        )}
        <div><button class="button primary" disabled={asking.busy}>Explain</button></div>
        {asking.error ? <ErrorBox error={asking.error} labels={LABELS} /> : null}
      </form>
      <div aria-live="polite">{answer ? <Answer of={answer.of} answer={answer.found} /> : <p class="muted">Describe a request, then press Explain. Nothing runs and nothing is recorded.</p>}</div>
    </div>
  );
}

function Answer({ of, answer }: { of: string; answer: PolicyExplanation }) {
  return (
    <article class="stack">
      <p class="lead" data-testid="explain-decision"><OutcomeText outcome={answer} /></p>
      <p class="muted">{of}</p>
      <p><Untrusted value={answer.reason} /></p>
      {answer.remedy && <p><strong>Remedy:</strong> <Untrusted value={answer.remedy} /></p>}
      {answer.approval && <p>{answer.approval.quorum} of the roles {answer.approval.roles.join(', ')} must agree.</p>}
      <p class="muted">Risk: {answer.risk.arithmetic || answer.risk.score}. Policy: {answer.policy_id}.</p>
      <div class="scroll-x">
        <table class="plain">
          <thead><tr><th scope="col">Rule</th><th scope="col">Effect</th><th scope="col">Matches</th></tr></thead>
          <tbody>
            {answer.rules.map((rule) => (
              <tr key={rule.name} class={rule.decides ? 'decides' : rule.matches ? '' : 'muted'}>
                <td><Untrusted value={rule.name} mono />{rule.decides && <strong> decides</strong>}<div class="muted"><Untrusted value={rule.why} /></div></td>
                <td><EffectBadge effect={rule.effect} /></td>
                <td>{rule.matches ? 'yes' : <Untrusted value={`no: ${rule.because ?? ''}`} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </article>
  );
}
