// SPDX-License-Identifier: Apache-2.0
// A notebook on an interpreter of the session: cells share their variables, and results are drawn.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { del, path, post } from '../../api';
import { Shelf } from '../../drafts';
import { useApi } from '../../hooks';
import { attempt, Button, Confirm, ErrorState, Notice, Output, Select, Status, toastError, Untrusted } from '../../parts';
import { approvalPath } from '../../places';
import { Link } from '../../router';
import { isAdmin } from '../../session';
import { connectSocket } from '../../socket';
import { ENDED, type Execution, type Session } from '../../types';
import { ResultList } from '../executions/execution';
import { useFollowing } from '../executions/stream';

interface CellText {
  key: number;
  code: string;
  /** The code that ran last, which its execution has. */
  ran: string;
  execution: string | null;
}

interface Kernel {
  name: string;
  language: string;
  status: 'not_started' | 'idle' | 'busy';
  cells: number;
  number: number;
}

/** The cells of each session, as long as this page stays. */
const books = new Shelf<CellText[]>((cells) => cells.reduce((sum, cell) => sum + 2 * (cell.code.length + cell.ran.length), 0));
const isUnsaved = (cell: CellText): boolean => cell.code.trim() !== '' && cell.code !== cell.ran;
const MAX_CELLS = 200;
const LANGUAGES = ['python', 'node', 'bash'] as const;
let keys = 0;

const fresh = (): CellText => ({ key: (keys += 1), code: '', ran: '', execution: null });

export function Notebook({ session }: { session: Session }): JSX.Element {
  const [cells, setCells] = useState<CellText[]>(() => books.get(session.id) ?? [fresh()]);
  const start = (LANGUAGES as readonly string[]).includes(session.language ?? '') ? (session.language as (typeof LANGUAGES)[number]) : 'python';
  const [language, setLanguage] = useState<(typeof LANGUAGES)[number]>(start);
  const [asking, setAsking] = useState(false);
  const [focus, setFocus] = useState<number | null>(null);
  const kernels = useApi<{ kernels: Kernel[] }>(path`/v1/sessions/${session.id}/kernels`, { every: 3 });
  const kernel = kernels.data?.kernels.find((one) => one.name === language) ?? null;
  useEffect(() => void books.put(session.id, cells, cells.some(isUnsaved)), [cells]);
  const change = (key: number, part: Partial<CellText>): void => setCells((old) => old.map((cell) => (cell.key === key ? { ...cell, ...part } : cell)));
  const run = async (cell: CellText): Promise<void> => {
    if (cell.code.trim() === '') return;
    try {
      const request = { language, code: cell.code, artifacts: [] };
      const made = await post<Execution>(path`/v1/sessions/${session.id}/exec`, request);
      const next = fresh();
      setCells((old) => {
        const changed = old.map((one) => (one.key === cell.key ? { ...one, ran: cell.code, execution: made.id } : one));
        return changed.at(-1)?.key === cell.key && changed.length < MAX_CELLS ? [...changed, next] : changed;
      });
      const index = cells.findIndex((one) => one.key === cell.key);
      setFocus(cells[index + 1]?.key ?? next.key);
      kernels.reload();
    } catch (error) {
      toastError(error);
    }
  };
  return (
    <div class="notebook">
      <div class="table-tools">
        <Select label="Language" value={language} options={LANGUAGES} onChange={(value) => setLanguage(value)} />
        <Status value={kernel?.status.replace('_', ' ') ?? 'not started'} tone={kernel?.status === 'busy' ? 'busy' : kernel?.status === 'idle' ? 'good' : 'plain'} />
        <span class="grow" />
        <span class="hint">Shift Enter runs a cell, Esc leaves it.</span>
        <Button small onClick={async () => { for (const cell of cells) await run(cell); }}>Run all</Button>
        {kernel && kernel.status !== 'not_started' && <Button small kind="danger" onClick={() => setAsking(true)}>Restart…</Button>}
      </div>
      {cells.map((cell, index) => (
        <CellView
          key={cell.key} cell={cell} index={index} focused={focus === cell.key} onChange={(code) => change(cell.key, { code })} onRun={() => run(cell)}
          {...(cells.length > 1 ? { onRemove: () => setCells((old) => old.filter((one) => one.key !== cell.key)) } : {})}
        />
      ))}
      <div><Button small disabled={cells.length >= MAX_CELLS} onClick={() => { const next = fresh(); setCells((old) => [...old, next]); setFocus(next.key); }}>Add a cell</Button></div>
      <p class="hint">Cells stay in this page until you close it or sign out; what ran is kept under Executions.</p>
      {asking && (
        <Confirm title="Restart the interpreter?" action="Restart" onClose={() => setAsking(false)} onConfirm={async () => { await post(`${path`/v1/sessions/${session.id}/kernels/${language}`}:restart`); kernels.reload(); }}>
          <p>Its variables are lost. Files stay.</p>
        </Confirm>
      )}
    </div>
  );
}

function CellView({ cell, index, focused, onChange, onRun, onRemove }: {
  cell: CellText; index: number; focused: boolean; onChange(code: string): void; onRun(): Promise<void>; onRemove?: () => void;
}): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (focused) area.current?.focus();
  }, [focused]);
  const rows = Math.min(30, Math.max(2, cell.code.split('\n').length));
  return (
    <section class="cell" aria-label={`Cell ${index + 1}`}>
      <div class="cell-side">
        <Button small label={`Run cell ${index + 1}`} onClick={onRun}>Run</Button>
        {onRemove && <Button small kind="quiet" label={`Remove cell ${index + 1}`} onClick={onRemove}>Remove</Button>}
      </div>
      <div class="cell-main">
        <textarea
          ref={area} class="mono" rows={rows} value={cell.code} spellcheck={false} aria-label={`Code of cell ${index + 1}`} placeholder="print(6 * 7)"
          onInput={(event) => onChange(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.shiftKey || event.ctrlKey)) {
              event.preventDefault();
              void onRun();
            } else if (event.key === 'Escape') {
              event.currentTarget.blur();
            } else if (event.key === 'Tab' && !event.shiftKey && !event.ctrlKey) {
              // Tab indents inside a cell; Esc first, then Tab goes on to the next control.
              event.preventDefault();
              const { selectionStart, selectionEnd, value } = event.currentTarget;
              onChange(`${value.slice(0, selectionStart)}    ${value.slice(selectionEnd)}`);
              const at = selectionStart + 4;
              requestAnimationFrame(() => area.current?.setSelectionRange(at, at));
            }
          }}
        />
        {cell.execution && <CellResultView key={cell.execution} id={cell.execution} />}
      </div>
    </section>
  );
}

function CellResultView({ id }: { id: string }): JSX.Element {
  const following = useFollowing(id, connectSocket);
  const { execution, chunks, error } = following;
  if (!execution) return error ? <ErrorState error={error} retry={following.reload} /> : <p class="soft">…</p>;
  const escalation = execution.error?.details['escalation_id'];
  const running = !ENDED.has(execution.status);
  return (
    <div class="cell-out">
      <p class="row">
        {(running || execution.status !== 'completed' || execution.exit_code !== 0) && <Status value={execution.status === 'completed' ? 'failed' : execution.status} />}
        <Link to={`executions/${id}`} class="faint">{execution.cell ? `[${execution.cell.number}]` : 'Execution'}</Link>
        {running && execution.status !== 'blocked' && <Button small onClick={() => attempt(() => del(path`/v1/executions/${id}`))}>Interrupt</Button>}
        {typeof escalation === 'string' && <Link to={approvalPath(escalation, isAdmin() ? execution.principal.tenant : null)}>{escalation} waits for a person</Link>}
      </p>
      {execution.cell?.state_lost && <Notice tone="warn" title="The interpreter’s variables are lost."><p><Untrusted value={execution.cell.state_lost_reason ?? ''} /></p></Notice>}
      {execution.error && execution.status !== 'blocked' && <p class="field-error"><Untrusted value={execution.error.message} /></p>}
      {chunks.length > 0 && <Output label="Output of the cell" chunks={chunks} />}
      <ResultList execution={execution} />
    </div>
  );
}
