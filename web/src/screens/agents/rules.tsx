// SPDX-License-Identifier: Apache-2.0
// The agent's own rules. A change is first tried on stored requests by the engine, and then applied.
import { useEffect, useRef, useState } from 'preact/hooks';
import { useDraft } from '../../drafts';
import { api, Dialog, ErrorBox, Field, IdLink, Loading, may, toast, Untrusted, useAction, useGuard, useLoad } from '../kit';
import { agentRoute } from './detail';
import { changesInWords, type Draft, draftOf, grantsTakenBack, limitOf, LIST_WORDS, linesOf, updateOf } from './draft';
import { Trial } from './trial';
import { type AgentDryRun, type AgentSandbox, type AgentUpdate, type LimitName, LIMITS, type Operation, OPERATIONS, RULE_LISTS, type RuleList } from './types';

const LIST_HINTS = {
  allowed_commands: 'Beyond the level. One pattern a line, such as cargo build.',
  forbidden_commands: 'Refused by name, whatever the level allows.',
  forbidden_paths: 'Globs, such as /etc/*.',
  dangerous_patterns: 'Commands that are denied, such as git push *.',
} as const;

const limitLabel = (label: string, unit: string): string => (unit ? `${label}, ${unit}` : label);
const LABELS = {
  level: 'Level', ...LIST_WORDS,
  ...Object.fromEntries(RULE_LISTS.flatMap((name) => [[`add.${name}`, LIST_WORDS[name]], [`remove.${name}`, LIST_WORDS[name]]])),
  ...Object.fromEntries(LIMITS.map(([name, label, unit]) => [`limits.${name}`, limitLabel(label, unit)])),
};

type Typed = Partial<Record<LimitName | RuleList, string>>;

export function Rules({ sandbox, onChanged }: { sandbox: AgentSandbox; onChanged(): void }) {
  const levels = useLoad<{ levels: string[] }>('/v1/agents:health', []);
  // `typed`: as typed, where a draft has numbers and lists without blanks. `version`: the one that the draft began with.
  const [{ version, draft, typed }, setAll] = useDraft('rules', { version: sandbox.version, draft: draftOf(sandbox), typed: {} as Typed }, (edited) => Object.keys(updateOf(sandbox, edited.draft)).length > 0);
  const change = (next: Draft, texts: Typed = typed): void => setAll((old) => ({ ...old, draft: next, typed: texts }));
  const read = useRef(sandbox.version);
  useEffect(() => {
    if (sandbox.version !== read.current) setAll((old) => ({ ...old, version: sandbox.version }));
    read.current = sandbox.version;
  }, [sandbox.version]);
  const [tries, setTries] = useState(false);
  const locked = !may('agent.manage');
  const update = updateOf(sandbox, draft);
  const dirty = Object.keys(update).length > 0;
  const stuck = grantsTakenBack(sandbox, draft);
  const wrong = LIMITS.some(([name]) => limitOf(typed[name] ?? '') === undefined);
  useGuard(dirty, ['tab']);
  const names = levels.data?.levels ?? [sandbox.level];
  return (
    <div class="stack">
      {locked && <p class="muted">Your role reads these rules. A tenant administrator changes them.</p>}
      <div class="flow">
        <section class="panel stack">
          <Field label="Level"><select disabled={locked} value={draft.level} onChange={(event) => change({ ...draft, level: event.currentTarget.value })}>{names.map((each) => <option key={each}>{each}</option>)}</select></Field>
          <label class="check-label"><input type="checkbox" disabled={locked} checked={draft.whitelist_mode} onChange={() => change({ ...draft, whitelist_mode: !draft.whitelist_mode })} /> Only the agent's own allowed commands count</label>
          <label class="check-label"><input type="checkbox" disabled={locked} checked={draft.nested} onChange={() => change({ ...draft, nested: !draft.nested })} /> Tools in its sessions get sandboxes of their own</label>
          {sandbox.temporary_permissions.map((each, index) => (
            <p key={index} class="muted">For a time: {each.operation} <Untrusted value={each.pattern} mono /> by <IdLink id={each.escalation_id} tenant={sandbox.tenant} /></p>
          ))}
        </section>
        <Operations draft={draft} locked={locked} onChange={change} stuck={stuck} />
        <Limits draft={draft} typed={typed} sandbox={sandbox} locked={locked} onChange={change} />
        {RULE_LISTS.map((name) => (
          <section key={name} class="panel">
            <Field label={LIST_WORDS[name]} hint={LIST_HINTS[name]}>
              <textarea class="mono" rows={4} spellcheck={false} readOnly={locked} value={typed[name] ?? draft[name].join('\n')}
                onInput={(event) => change({ ...draft, [name]: linesOf(event.currentTarget.value) }, { ...typed, [name]: event.currentTarget.value })} />
            </Field>
          </section>
        ))}
      </div>
      {!locked && (
        <div class="row sticky-actions">
          <button class="button primary" disabled={!dirty || wrong || stuck.length > 0} onClick={() => setTries(true)}>Try and apply…</button>
          <button class="button" disabled={!dirty && !wrong} onClick={() => setAll({ version: sandbox.version, draft: draftOf(sandbox), typed: {} })}>Discard</button>
          {dirty && <span class="muted">{changesInWords(update).length} changes</span>}
        </div>
      )}
      {tries && <Try sandbox={sandbox} version={version} update={update} onClose={() => setTries(false)} onApplied={onChanged} />}
    </div>
  );
}

function Operations({ draft, locked, stuck, onChange }: { draft: Draft; locked: boolean; stuck: Operation[]; onChange(draft: Draft): void }) {
  return (
    <section class="panel">
      <h2>Operations</h2>
      <table class="plain">
        <tbody>
          {OPERATIONS.map((name) => (
            <tr key={name}>
              <th scope="row"><label for={`op-${name}`}>{name}</label></th>
              <td>
                <select id={`op-${name}`} disabled={locked} value={draft.operations[name]}
                  onChange={(event) => onChange({ ...draft, operations: { ...draft.operations, [name]: event.currentTarget.value as 'level' } })}>
                  <option value="level">as the level</option><option value="granted">granted</option><option value="revoked">revoked</option>
                </select>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {stuck.length > 0 && <p class="warn">The service keeps a grant or a revocation once it is set. Choose granted or revoked for {stuck.join(', ')}, or delete the sandbox and make it again.</p>}
    </section>
  );
}

interface LimitsProps {
  draft: Draft;
  typed: Typed;
  sandbox: AgentSandbox;
  locked: boolean;
  onChange(draft: Draft, typed: Typed): void;
}

function Limits({ draft, typed, sandbox, locked, onChange }: LimitsProps) {
  const set = (name: LimitName, text: string): void => {
    const value = limitOf(text);
    onChange(value === undefined ? draft : { ...draft, limits: { ...draft.limits, [name]: value } }, { ...typed, [name]: text });
  };
  return (
    <section class="panel">
      <h2>Limits</h2>
      <div class="fields">
        {LIMITS.map(([name, label, unit, hint]) => (
          <Field key={name} label={limitLabel(label, unit)} hint={hint}
            error={limitOf(typed[name] ?? '') === undefined ? 'Type a whole number from 1, or nothing for the limit of the level.' : null}>
            <input inputMode="numeric" autocomplete="off" disabled={locked} value={typed[name] ?? draft.limits[name] ?? ''} onInput={(event) => set(name, event.currentTarget.value)}
              placeholder={sandbox.effective?.limits[name] ? `level: ${sandbox.effective.limits[name]}` : 'as the level'} />
          </Field>
        ))}
      </div>
    </section>
  );
}

function Try({ sandbox, version, update, onClose, onApplied }: { sandbox: AgentSandbox; version: number; update: AgentUpdate; onClose(): void; onApplied(): void }) {
  const trial = useLoad(() => api.post<AgentDryRun>(agentRoute(sandbox.tenant, sandbox.agent, 'sandbox:dry-run'), update), []);
  const acting = useAction();
  const apply = (): void => void acting.run(async () => {
    const now = await api.get<AgentSandbox>(agentRoute(sandbox.tenant, sandbox.agent, 'sandbox'));
    if (now.version !== version) throw new Error(`Another person changed this agent: version ${now.version} follows the version ${version} that you changed. Close this window and load the page again.`);
    await api.post(agentRoute(sandbox.tenant, sandbox.agent, 'sandbox:update'), update);
    toast(`The rules of ${sandbox.agent} are applied.`);
    onClose();
    onApplied();
  });
  return (
    <Dialog title={`Try and apply the rules of ${sandbox.agent}`} wide onClose={onClose} actions={<>
      <button class="button" onClick={onClose}>Back to the rules</button>
      <button class="button primary" disabled={acting.busy || !trial.data} onClick={apply}>Apply</button>
    </>}>
      <div class="stack">
        <ul class="list" aria-label="Changes">{changesInWords(update).map((each, index) => <li key={index}><Untrusted value={each} /></li>)}</ul>
        {trial.error ? <ErrorBox error={trial.error} onRetry={trial.reload} labels={LABELS} /> : null}
        {!trial.data && !trial.error && <Loading what="the trial on stored requests" />}
        {trial.data && <Trial answer={trial.data} />}
        {acting.error ? <ErrorBox error={acting.error} labels={LABELS} /> : null}
      </div>
    </Dialog>
  );
}
