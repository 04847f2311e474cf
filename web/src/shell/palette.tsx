// SPDX-License-Identifier: Apache-2.0
// Search: a whole id opens its page; a part of an id or name is looked for among the newest records.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get } from '../api';
import { useId } from '../hooks';
import { useBackdrop } from '../parts/dialog';
import { approvalPath } from '../places';
import { navigate } from '../router';
import { screens } from '../screens/registry';
import { isAdmin, may } from '../session';
import { visible } from '../text';
import { allowed } from './app';

interface Hit {
  to: string;
  label: string;
  what: string;
}

interface Recent {
  id: string;
  name?: string | null;
  subject?: string;
  status?: string;
  requester?: { tenant: string };
}

const SOURCES = [
  { permission: 'execution.read', path: '/v1/executions', member: 'executions', what: 'Execution', to: 'executions/' },
  { permission: 'session.read', path: '/v1/sessions', member: 'sessions', what: 'Session', to: 'sessions/' },
  { permission: 'escalation.read', path: '/v1/escalations', member: 'escalations', what: 'Approval', to: 'approvals/' },
];
const MAX_HITS = 12;

async function recent(signal: AbortSignal): Promise<(Hit & { text: string })[]> {
  const lists = await Promise.all(SOURCES.filter((source) => may(source.permission)).map(async (source) => {
    try {
      const body = await get<Record<string, Recent[]>>(source.path, { query: { limit: 100 }, signal });
      return (body[source.member] ?? []).map((row) => ({
        to: source.member === 'escalations' ? approvalPath(row.id, isAdmin() ? row.requester?.tenant : null) : source.to + encodeURIComponent(row.id), label: row.name ? `${row.id} (${row.name})` : row.id,
        what: `${source.what}, ${row.status ?? ''}`, text: `${row.id} ${row.name ?? ''} ${row.subject ?? ''}`.toLowerCase(),
      }));
    } catch {
      return [];
    }
  }));
  return lists.flat();
}

export function Palette({ onClose }: { onClose(): void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const backdrop = useBackdrop(onClose);
  const id = useId();
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const [known, setKnown] = useState<(Hit & { text: string })[]>([]);
  useEffect(() => {
    const before = document.activeElement;
    const abort = new AbortController();
    dialog.current?.showModal();
    dialog.current?.querySelector('input')?.focus();
    void recent(abort.signal).then(setKnown);
    return () => {
      abort.abort();
      dialog.current?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const wanted = text.trim();
  const low = wanted.toLowerCase();
  const hits: Hit[] = [];
  for (const screen of screens) {
    if (screen.opens?.pattern.test(wanted) && allowed(screen)) hits.push({ to: screen.opens.to(wanted), label: wanted, what: screen.opens.what });
  }
  for (const screen of screens) {
    if (screen.nav && allowed(screen) && screen.title.toLowerCase().includes(low)) hits.push({ to: screen.path, label: screen.title, what: 'Screen' });
  }
  if (low.length >= 2) hits.push(...known.filter((one) => one.text.includes(low) && !hits.some((hit) => hit.to === one.to)));
  const shown = hits.slice(0, MAX_HITS);
  const chosen = Math.min(at, shown.length - 1);
  const open = (hit: Hit | undefined): void => {
    if (!hit) return;
    onClose();
    navigate(hit.to);
  };
  return (
    <dialog ref={dialog} class="dialog palette" aria-label="Search" onCancel={(event) => { event.preventDefault(); onClose(); }} {...backdrop}>
      <div class="dialog-body">
        <input
          type="text" role="combobox" aria-expanded="true" aria-controls={`${id}-list`} aria-autocomplete="list" aria-label="Id, name or screen"
          aria-activedescendant={shown[chosen] ? `${id}-${chosen}` : undefined} placeholder="An id such as exec_…, ses_…, ESC-…, or a screen" value={text} spellcheck={false} autocomplete="off"
          onInput={(event) => { setText(event.currentTarget.value); setAt(0); }}
          onKeyDown={(event) => {
            if (event.key === 'ArrowDown') setAt(Math.min(chosen + 1, shown.length - 1));
            else if (event.key === 'ArrowUp') setAt(Math.max(0, chosen - 1));
            else if (event.key === 'Enter') open(shown[chosen]);
            else return;
            event.preventDefault();
          }}
        />
        <ul id={`${id}-list`} role="listbox" aria-label="Found">
          {shown.map((hit, index) => (
            <li key={hit.to + hit.what} id={`${id}-${index}`} role="option" aria-selected={index === chosen} onClick={() => open(hit)} onMouseMove={() => setAt(index)}>
              <span class={hit.what === 'Screen' ? '' : 'mono'}>{visible(hit.label)}</span><span class="faint">{visible(hit.what)}</span>
            </li>
          ))}
        </ul>
        {shown.length === 0 && <p class="state-text">Nothing is found. Enter a whole id to open older records.</p>}
      </div>
    </dialog>
  );
}
