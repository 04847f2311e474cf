// SPDX-License-Identifier: Apache-2.0
// Cases for a policy: requests with the expected decision (docs/POLICY.md, "Cases").
import { useMemo, useState } from 'preact/hooks';
import { api, Badge, ErrorBox, Untrusted, useAction } from '../kit';
import { OutcomeText } from './decision';
import { EditorPane } from './editor_pane';
import { sourceText } from './explain';
import type { PolicyTestReport } from './types';

export const EXAMPLE = `version: 1
cases:
  - name: python without a network is allowed
    request: {language: python, code: "print(1)"}
    principal: {tenant: acme, agent: coder, roles: [agent]}
    expect: {decision: allow}
`;

export interface CasesDraft {
  text: string;
  /** Whether a changed document in the editor is tested, in place of the policy in force. */
  ofDraft: boolean;
}

export interface CasesProps {
  kept: CasesDraft;
  onKeep(kept: CasesDraft): void;
  /** The document in the editor, if the person changed it. */
  draft: string | undefined;
}

export function Cases({ kept, onKeep, draft }: CasesProps) {
  const initial = useMemo(() => kept.text, []);
  const [answer, setAnswer] = useState<{ of: string; report: PolicyTestReport } | null>(null);
  const testing = useAction();
  const test = (): void => void testing.run(async () => {
    setAnswer(null);
    const document = kept.ofDraft && draft !== undefined ? { document: draft } : {};
    const report = await api.post<PolicyTestReport>('/v1/policies:test', { cases: kept.text, ...document });
    setAnswer({ of: sourceText('document' in document), report });
  });
  const report = answer?.report;
  return (
    <div class="halves">
      <div class="stack">
        <EditorPane label="Test cases, YAML" text={initial} revision={0} onChange={(text) => onKeep({ ...kept, text })} />
        {draft !== undefined && (
          <label class="check-label"><input type="checkbox" checked={kept.ofDraft} onChange={() => onKeep({ ...kept, ofDraft: !kept.ofDraft })} /> Test the document in the editor</label>
        )}
        <div><button class="button primary" disabled={testing.busy} onClick={test}>Run the cases</button></div>
        {testing.error ? <ErrorBox error={testing.error} labels={{ cases: 'Test cases', document: 'Policy document' }} /> : null}
      </div>
      <div aria-live="polite">
        {!report && <p class="muted">Write cases, then run them. No program runs.</p>}
        {report && <p class="lead"><Badge tone={report.failed > 0 ? 'bad' : 'ok'}>{`${report.passed} passed, ${report.failed} failed`}</Badge></p>}
        {answer && <p class="muted">{answer.of}</p>}
        <ul class="rows">
          {report?.cases.map((each, index) => (
            <li key={index}>
              <Badge tone={each.passed ? 'ok' : 'bad'}>{each.passed ? 'passed' : 'failed'}</Badge> <strong><Untrusted value={each.name} /></strong>
              <div><OutcomeText outcome={each.came} /></div>
              {each.problems.map((problem, i) => <div key={i} class="bad"><Untrusted value={problem} /></div>)}
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}
