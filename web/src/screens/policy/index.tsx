// SPDX-License-Identifier: Apache-2.0
// The policy: edit, check, explain, test, try on recorded requests, apply, and go back.
import '../governance.css';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useDraft } from '../../drafts';
import { api, ApiError, Badge, Dialog, ErrorBox, Field, Loading, may, Page, Tabs, TextDiff, toast, Untrusted, useAction, useGuard, useLoad } from '../kit';
import type { ScreenProps } from '../registry';
import { Cases, type CasesDraft, EXAMPLE } from './cases';
import { lineOf } from './complete';
import { EffectBadge, Replay, RuleChanges } from './decision';
import type { EditorProblem } from './editor';
import { EditorPane } from './editor_pane';
import { EMPTY, Explain, type ExplainDraft } from './explain';
import type { PolicyCheck, PolicyDiff, PolicyDocument, PolicyVersion } from './types';
import { Versions } from './versions';

const CHECK_AFTER_MS = 500;
const RECENT = 200;
const START = `version: 2
rules:
  - name: the-rest
    why: Code without a network can reach only its own workspace.
    match: {network_tiers: [none], dependencies: none}
    effect: allow
`;

async function loadCurrent(): Promise<PolicyDocument> {
  return await api.get<PolicyDocument>('/v1/policies/current');
}

export function PolicyPage({ query }: ScreenProps) {
  const asked = Number(query.get('version')) || null;
  if (!may('policy.read')) return <Page title="Policy"><p>Your role does not read the policy. An operator, an approver or an administrator can explain its decisions.</p></Page>;
  return may('policy.apply') ? <Whole asked={asked} /> : <Draft current={null} asked={null} reload={() => undefined} />;
}

function Whole({ asked }: { asked: number | null }) {
  const current = useLoad(loadCurrent, []);
  if (current.error) return <Page title="Policy"><ErrorBox error={current.error} onRetry={current.reload} /></Page>;
  if (!current.data) return <Page title="Policy"><Loading what="the policy" /></Page>;
  return <Draft current={current.data} asked={asked} reload={current.reload} />;
}

/** Checks the text a moment after the last key. */
function useCheck(text: string): PolicyCheck | null {
  const [check, setCheck] = useState<PolicyCheck | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      api.post<PolicyCheck>('/v1/policies:check', { document: text }, { signal: abort.signal }).then(setCheck, (error: unknown) => {
        if (!abort.signal.aborted) setCheck({ valid: false, error: error instanceof Error ? error.message : String(error), warnings: [], rules: [], sha256: null });
      });
    }, CHECK_AFTER_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  return check;
}

function problemsOf(check: PolicyCheck | null): EditorProblem[] {
  if (!check) return [];
  const errors = check.error ? [{ line: lineOf(check.error), message: check.error, severity: 'error' as const }] : [];
  return [...errors, ...check.warnings.map((message) => ({ line: lineOf(message), message, severity: 'warning' as const }))];
}

interface Edited {
  base: PolicyDocument | null;
  text: string;
}

const isChanged = ({ base, text }: Edited): boolean => text !== (base?.document ?? START);

function Draft({ current, asked, reload }: { current: PolicyDocument | null; asked: number | null; reload(): void }) {
  // With the version that the text began with: the service refuses the text if another one is in force.
  const [{ base, text }, setDraft] = useDraft('document', { base: current, text: current?.document ?? START }, isChanged);
  const setText = (typed: string): void => setDraft((old) => ({ ...old, text: typed }));
  const [revision, setRevision] = useState(0);
  const check = useCheck(text);
  // Here, so that a look at another tab loses neither.
  const [question, setQuestion] = useDraft<ExplainDraft>('question', { question: EMPTY, ofDraft: true });
  const [cases, setCases] = useDraft<CasesDraft>('cases', { text: EXAMPLE, ofDraft: true });
  const dirty = isChanged({ base, text });
  useGuard(dirty);
  const replace = (document: PolicyDocument): void => {
    setDraft({ base: document, text: document.document });
    setRevision(revision + 1);
  };
  const read = useRef(current);
  useEffect(() => {
    if (current && current !== read.current && current.version !== base?.version) replace(current);
    read.current = current;
  }, [current]);
  const tabs = [
    { id: 'edit', label: 'Document', content: () => <Edit {...{ base, text, revision, check, dirty, setText, replace, reload }} /> },
    { id: 'explain', label: 'Explain', content: () => <Explain kept={question} onKeep={setQuestion} draft={dirty ? text : undefined} mayName={may('policy.apply')} /> },
    { id: 'tests', label: 'Tests', content: () => <Cases kept={cases} onKeep={setCases} draft={dirty ? text : undefined} /> },
    ...(base ? [{ id: 'versions', label: 'Versions', content: () => <Versions current={base} asked={asked} onChanged={reload} /> }] : []),
  ];
  return (
    <Page title="Policy" subtitle={base ? `${base.name}, version ${base.version}, in force` : 'Your role may try documents of its own. Only an administrator reads and applies the document in force.'}>
      <Tabs tabs={tabs} label="Policy" />
    </Page>
  );
}

interface EditProps {
  base: PolicyDocument | null;
  text: string;
  revision: number;
  check: PolicyCheck | null;
  dirty: boolean;
  setText(text: string): void;
  replace(document: PolicyDocument): void;
  reload(): void;
}

function Edit({ base, text, revision, check, dirty, setText, replace, reload }: EditProps) {
  const problems = useMemo(() => problemsOf(check), [check]);
  const [applies, setApplies] = useState(false);
  const initial = useMemo(() => text, [revision]);
  return (
    <div class="policy-edit">
      <EditorPane label="Policy document, YAML" text={initial} revision={revision} schema problems={problems} onChange={setText} />
      <aside class="stack" aria-label="Check of the document">
        <div class="row" aria-live="polite">
          {!check ? <Badge tone="neutral">checking</Badge> : check.valid ? <Badge tone="ok">valid</Badge> : <Badge tone="bad">not valid</Badge>}
          {dirty && <Badge tone="warn">changed</Badge>}
        </div>
        {problems.map((problem, index) => <p key={index} class={problem.severity === 'error' ? 'bad' : 'warn'}><Untrusted value={problem.message} /></p>)}
        {base && (
          <div class="row">
            <button class="button primary" disabled={!dirty || !check?.valid} onClick={() => setApplies(true)}>Try and apply…</button>
            <button class="button" disabled={!dirty} onClick={() => replace(base)}>Discard</button>
          </div>
        )}
        {check && check.rules.length > 0 && (
          <ol class="rules" aria-label="Rules in order">
            {check.rules.map((rule, index) => (
              <li key={index}><EffectBadge effect={rule.effect} /> <Untrusted value={rule.name} mono /><div class="muted"><Untrusted value={rule.why} /></div></li>
            ))}
          </ol>
        )}
      </aside>
      {applies && base && <Apply base={base} text={text} onClose={() => setApplies(false)} onApplied={reload} replace={replace} />}
    </div>
  );
}

function Apply({ base, text, onClose, onApplied, replace }: { base: PolicyDocument; text: string; onClose(): void; onApplied(): void; replace(document: PolicyDocument): void }) {
  const [note, setNote] = useDraft('note', '');
  const [conflict, setConflict] = useState(false);
  const trial = useLoad(() => api.post<PolicyDiff>('/v1/policies:diff', { document: text, against: base.version, recent: RECENT }), []);
  const acting = useAction();
  const apply = (): void => void acting.run(async () => {
    try {
      const made = await api.post<PolicyVersion>('/v1/policies', { document: text, name: base.name, note }, { headers: { 'If-Match': `"${base.version}"` } });
      toast(`Version ${made.version} is in force.`);
      onClose();
      onApplied();
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status !== 409 && error.status !== 412)) throw error;
      setConflict(true);
    }
  });
  const takeTheirs = (): void => void acting.run(async () => {
    replace(await loadCurrent());
    onClose();
  });
  return (
    <Dialog title="Try and apply the policy" wide onClose={onClose}
      actions={<>
        <button class="button" onClick={onClose}>Back to the editor</button>
        {conflict ? <button class="button" disabled={acting.busy} onClick={takeTheirs}>Load the version in force</button>
          : <button class="button primary" disabled={acting.busy || !trial.data} onClick={apply}>Apply</button>}
      </>}>
      <div class="stack">
        {conflict && <p class="bad" role="alert">Another person applied a version after version {base.version}. Your text is not applied. Copy your change, load the version in force, and change it there.</p>}
        {trial.error ? <ErrorBox error={trial.error} onRetry={trial.reload} /> : null}
        {!trial.data && !trial.error && <Loading what="the trial on recorded requests" />}
        {trial.data && <RuleChanges diff={trial.data} />}
        {trial.data && <Replay diff={trial.data} />}
        <details><summary>Changed lines</summary><TextDiff label="Changed lines" before={base.document} after={text} /></details>
        <Field label="Note" hint="The reason, for the audit log."><input value={note} maxLength={1000} onInput={(event) => setNote(event.currentTarget.value)} /></Field>
        {acting.error ? <ErrorBox error={acting.error} labels={{ document: 'Policy document', note: 'Note' }} /> : null}
      </div>
    </Dialog>
  );
}
