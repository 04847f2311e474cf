// SPDX-License-Identifier: Apache-2.0
// Entries as sentences, newest first, with the filters of GET /v1/audit.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useMedia } from '../../hooks';
import { api, Clock, Empty, ErrorBox, Field, go, IdLink, Loading, may, Untrusted, useAction, useUtc } from '../kit';
import { visible } from '../../text';
import { zoneName } from '../../zone';
import { EntryDetails } from './entry_details';
import { FILTERS, type Filters, filtersOf, isTime, NONE, pageOf, target } from './filters';
import { sentenceOf, sentenceText } from './sentences';
import type { AuditEntry, AuditPage } from './types';

function dayOf(micros: number, utc: boolean): string {
  const zone = utc ? { timeZone: 'UTC' } : {};
  return new Date(micros / 1000).toLocaleDateString('en-GB', { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric', ...zone });
}

interface Shown {
  entries: AuditEntry[];
  next: number | null;
  // Where each page begins, the newest first; the last one is shown. A page has at most 100 rows.
  starts: (number | null)[];
}

interface PagesOf {
  shown: Shown | null;
  error: unknown;
  busy: boolean;
  load(starts: (number | null)[]): void;
}

/** Pages of entries. An answer that a newer question overtook is dropped. */
function usePagesOf(filters: Filters, utc: boolean): PagesOf {
  const first = target(filters, null, utc);
  const [state, setState] = useState<{ of: string; shown: Shown | null; error: unknown; busy: boolean }>({ of: first, shown: null, error: null, busy: true });
  const running = useRef<AbortController | null>(null);
  const load = (starts: (number | null)[]): void => {
    running.current?.abort();
    const abort = new AbortController();
    running.current = abort;
    setState((old) => ({ of: first, shown: old.of === first ? old.shown : null, error: null, busy: true }));
    api.get<AuditPage>(target(filters, starts.at(-1) ?? null, utc), { signal: abort.signal }).then(
      (page) => !abort.signal.aborted && setState({ of: first, shown: { entries: page.entries, next: page.next_before, starts }, error: null, busy: false }),
      (error: unknown) => !abort.signal.aborted && setState((old) => ({ ...old, error, busy: false })));
  };
  useEffect(() => {
    load([null]);
    return () => running.current?.abort();
  }, [first]);
  const fresh = state.of === first;
  return { shown: fresh ? state.shown : null, error: fresh ? state.error : null, busy: !fresh || state.busy, load };
}

export function Timeline({ query }: { query: URLSearchParams }) {
  const utc = useUtc();
  const filters = filtersOf(query);
  const [typed, setTyped] = useState<Filters>(filters);
  const [chosen, setChosen] = useState<AuditEntry | null>(null);
  const narrow = useMedia('(max-width: 700px)');
  const { shown, error, busy, load } = usePagesOf(filters, utc);
  const saving = useAction();
  const entries = shown?.entries ?? null;
  const next = shown?.next ?? null;
  const starts = shown?.starts ?? [null];
  const page = pageOf(filters);
  useEffect(() => setTyped(filters), [page]);  // also after Back
  useEffect(() => setChosen(null), [shown]);
  const search = (event: Event): void => {
    event.preventDefault();
    if (pageOf(typed) === page) load([null]);
    else go(pageOf(typed));
  };
  const clear = (): void => {
    setTyped(NONE);
    go('audit');
  };
  return (
    <div class="stack">
      <details class={narrow ? 'fold' : 'fold open'} open={!narrow}>
        <summary>Filters and export</summary>
      <form class="filters" role="search" aria-label="Filters of the audit log" onSubmit={search}>
        {FILTERS.map(([name, label, example]) => (
          <Field key={name} label={isTime(name) ? `${label}, ${zoneName(utc)}` : label}>
            <input value={typed[name]} placeholder={example} onInput={(event) => setTyped({ ...typed, [name]: event.currentTarget.value })} />
          </Field>
        ))}
        <div class="row">
          <button class="button primary">Filter</button>
          <button class="button" type="button" onClick={clear}>Clear</button>
          <button type="button" class="button" disabled={saving.busy} onClick={() => void saving.run(() => api.save('/v1/audit/export', 'cloister-audit.jsonl'))}>{saving.busy ? 'Exporting…' : 'Export the whole log'}</button>
        </div>
      </form>
      </details>
      {error ? <ErrorBox error={error} onRetry={() => load(starts)} /> : null}
      {saving.error ? <ErrorBox error={saving.error} /> : null}
      {!entries && !error && <Loading what="the log" />}
      {entries?.length === 0 && next === null && <Empty title="No entry matches.">Remove a filter, or choose an earlier time.</Empty>}
      <div class={chosen ? 'beside' : ''}>
        <Sentences entries={entries ?? []} chosen={chosen} onChoose={setChosen} />
        {chosen && <EntryDetails key={chosen.hash} entry={chosen} onClose={() => setChosen(null)} />}
      </div>
      {entries?.length === 0 && next !== null && <p class="muted">No entry among the last 50,000 matches. Older ones may.</p>}
      {entries && (next !== null || starts.length > 1) && (
        <nav class="row" aria-label="Pages of the log">
          <button class="button" disabled={busy || starts.length === 1} onClick={() => load(starts.slice(0, -1))}>Newer</button>
          <button class="button" disabled={busy || next === null} onClick={() => load([...starts, next])}>Older</button>
        </nav>
      )}
    </div>
  );
}

function Sentences({ entries, chosen, onChoose }: { entries: AuditEntry[]; chosen: AuditEntry | null; onChoose(entry: AuditEntry): void }) {
  const utc = useUtc();
  const days = useMemo(() => {
    const groups: [string, AuditEntry[]][] = [];
    for (const entry of entries) {
      const day = dayOf(entry.at, utc);
      if (groups.at(-1)?.[0] !== day) groups.push([day, []]);
      groups.at(-1)![1].push(entry);
    }
    return groups;
  }, [entries, utc]);
  return (
    <div class="timeline" onKeyDown={step}>
      {days.map(([day, rows]) => (
        <section key={day} aria-label={day}>
          <h2>{day}</h2>
          <ol>
            {rows.map((entry) => (
              <li key={entry.hash} class={entry === chosen ? 'selected' : ''}>
                <Clock micros={entry.at} />
                <button class="sentence" aria-pressed={entry === chosen} title={visible(sentenceText(entry, true)).slice(0, 1000)} onClick={() => onChoose(entry)}>
                  <SentenceView entry={entry} />
                </button>
              </li>
            ))}
          </ol>
        </section>
      ))}
    </div>
  );
}

/** j, k and the arrows go from sentence to sentence. */
function step(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const by = event.key === 'j' || event.key === 'ArrowDown' ? 1 : event.key === 'k' || event.key === 'ArrowUp' ? -1 : 0;
  if (by === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>('.sentence')];
  const at = all.findIndex((each) => each === document.activeElement);
  all[at + by]?.focus();
  event.preventDefault();
}

function SentenceView({ entry }: { entry: AuditEntry }) {
  const { who, verb, subject, shown, rest } = sentenceOf(entry, may('audit.verify'));
  return (
    <>
      <strong><Untrusted value={who} /></strong> <Untrusted value={verb} /> {subject && <IdLink id={subject} plain />}
      {shown && <span class="muted"> (<Untrusted value={shown} cut={600} />)</span>}<Untrusted value={rest} cut={600} />
    </>
  );
}
