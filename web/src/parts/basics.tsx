// SPDX-License-Identifier: Apache-2.0
// Small parts: times, sizes, badges, the states of a reading, buttons.
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ApiError, labelled, type Labels } from '../api';
import { useClock } from '../hooks';
import { Link } from '../router';
import { keptStore, useStore } from '../store';
import * as text from '../text';

export const timeZone = keptStore('cloister.times', ['local', 'utc'] as const, 'local');

export interface TimeProps {
  /** RFC 3339, or milliseconds since 1970. */
  at: string | number | null | undefined;
  /** As "3 min ago". */
  relative?: boolean;
}

/** A time: local or UTC by the switch in the navigation; the other form is the title. */
export function Time({ at, relative }: TimeProps): JSX.Element {
  const utc = useStore(timeZone) === 'utc';
  const now = useClock(relative ? 5 : 3600);
  if (at === null || at === undefined || at === '') return <span class="faint">–</span>;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return <span>{String(at)}</span>;
  const title = `${text.timeText(date, false)} local, ${text.timeText(date, true)}`;
  return (
    <time dateTime={date.toISOString()} title={title}>
      {relative ? text.ago(date, now) : text.timeText(date, utc)}
    </time>
  );
}

export const Bytes = ({ count }: { count: number | null | undefined }): JSX.Element =>
  count === null || count === undefined ? <span class="faint">–</span> : <span title={`${text.number(count)} bytes`}>{text.bytes(count)}</span>;

export const Duration = ({ ms }: { ms: number | null | undefined }): JSX.Element =>
  <span class={ms === null || ms === undefined ? 'faint' : ''}>{ms === null || ms === undefined ? '–' : text.duration(ms)}</span>;

/** Text of a sandbox, client or destination, on one line: hidden characters are shown as escapes. */
export const Untrusted = ({ value, mono, cut }: { value: string; mono?: boolean; cut?: number }): JSX.Element => {
  const shown = text.visible(value.length > (cut ?? 4000) ? `${value.slice(0, cut ?? 4000)}…` : value);
  return <bdi class={mono ? 'mono' : undefined} title={cut !== undefined && value.length > cut ? text.visible(value.slice(0, 4000)) : undefined}>{shown}</bdi>;
};

export type Tone = 'good' | 'bad' | 'warn' | 'busy' | 'plain';

const TONES: Record<string, Tone> = {
  completed: 'good', ok: 'good', approved: 'good', used: 'good', ready: 'good', active: 'good', applied: 'good', allow: 'good', healthy: 'good',
  running: 'busy', creating: 'busy', queued: 'busy', busy: 'busy', idle: 'plain',
  blocked: 'warn', pending: 'warn', paused: 'warn', reduced: 'warn', escalate: 'warn', warning: 'warn', require_approval: 'warn',
  failed: 'bad', timed_out: 'bad', denied: 'bad', missing: 'bad', revoked: 'bad', deny: 'bad', disabled: 'bad', error: 'bad',
};

export const toneOf = (value: string): Tone => TONES[value] ?? 'plain';

/** A badge: the word carries the meaning, and the colour repeats it. */
export const Status = ({ value, tone, title }: { value: string; tone?: Tone; title?: string }): JSX.Element =>
  <span class={`badge tone-${tone ?? toneOf(value)}`} title={title}>{value.replace(/_/g, ' ')}</span>;

export interface ButtonProps {
  children: ComponentChildren;
  onClick?: () => unknown;
  kind?: 'primary' | 'danger' | 'quiet';
  type?: 'button' | 'submit';
  disabled?: boolean;
  /** Why it is disabled, or more about what it does. */
  title?: string;
  label?: string;
  small?: boolean;
  pressed?: boolean;
  expanded?: boolean;
  autoFocus?: boolean;
}

/** While a promise of onClick runs, the button is busy and takes no second click. */
export function Button(props: ButtonProps): JSX.Element {
  const [busy, setBusy] = useState(false);
  const click = (): void => {
    if (busy || props.disabled) return;
    const result = props.onClick?.();
    if (result instanceof Promise) {
      setBusy(true);
      void result.finally(() => setBusy(false));
    }
  };
  return (
    <button
      type={props.type ?? 'button'} class={`button ${props.kind ?? ''} ${props.small ? 'small' : ''}`} disabled={props.disabled}
      aria-busy={busy ? 'true' : undefined} title={props.title} aria-label={props.label} aria-pressed={props.pressed}
      aria-expanded={props.expanded} data-autofocus={props.autoFocus ? '' : undefined} onClick={props.onClick ? click : undefined}
    >
      {props.children}
    </button>
  );
}

/** There is nothing here, and the next step. */
export const Empty = ({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element => (
  <div class="state">
    <p class="state-title">{title}</p>
    {children && <div class="state-text">{children}</div>}
  </div>
);

export const Loading = ({ what }: { what?: string }): JSX.Element => (
  <div class="state" role="status"><span class="spinner" aria-hidden="true" /> Loading{what ? ` ${what}` : ''}…</div>
);

/** An error with its remedy, and a button to try again. `labels`: of the form that sent the request. */
export function ErrorState({ error: failed, retry, labels = {} }: { error: unknown; retry?: () => void; labels?: Labels }): JSX.Element {
  const error = labelled(failed, labels);
  const known = error instanceof ApiError ? error : null;
  return (
    <div class="notice tone-bad" role="alert">
      <p class="notice-title"><Untrusted value={known ? known.message : String(error instanceof Error ? error.message : error)} /></p>
      {known && <p><Untrusted value={known.remedy} /></p>}
      {retry && <Button small onClick={retry}>Try again</Button>}
    </div>
  );
}

export const Notice = ({ tone, title, children }: { tone?: Tone; title?: ComponentChildren; children?: ComponentChildren }): JSX.Element => (
  <div class={`notice tone-${tone ?? 'plain'}`}>
    {title && <p class="notice-title">{title}</p>}
    {children}
  </div>
);

export const Key = ({ children }: { children: string }): JSX.Element => <kbd>{children}</kbd>;

/** An id, in full, with a button that copies it. */
export function Id({ value, to }: { value: string; to?: string }): JSX.Element {
  return (
    <span class="id">
      {to ? <Link to={to} class="mono">{text.visible(value)}</Link> : <bdi class="mono">{text.visible(value)}</bdi>}
      <CopyButton value={value} what={value} />
    </span>
  );
}

export function CopyButton({ value, what, children }: { value: string; what: string; children?: ComponentChildren }): JSX.Element {
  const [done, setDone] = useState<'no' | 'yes' | 'failed'>('no');
  const copy = (): void => {
    navigator.clipboard.writeText(value).then(() => setDone('yes'), () => setDone('failed'));
    setTimeout(() => setDone('no'), 2000);
  };
  const word = done === 'yes' ? 'Copied' : done === 'failed' ? 'Select and copy it by hand' : 'Copy';
  return (
    <button type="button" class={children ? 'button small' : 'copy'} title={`${word}: ${text.visible(what)}`} aria-label={children ? undefined : `${word}: ${text.visible(what)}`} onClick={copy}>
      {done === 'no' ? (children ?? <Icon name="copy" />) : <span aria-live="polite">{word}</span>}
    </button>
  );
}

/** Names with values, as a description list. */
export const Facts = ({ rows }: { rows: [name: string, value: ComponentChildren][] }): JSX.Element => (
  <dl class="facts">
    {rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
  </dl>
);

const SHAPES: Record<string, string> = {
  home: 'M2 8 8 2.5 14 8M4 7v6.5h8V7', check: 'm3 8.5 3.5 3.5L13 4.5', play: 'M4 3v10l9-5z', terminal: 'M2 3h12v10H2zM4.5 6l2 2-2 2M8 10h3',
  agent: 'M8 2a3 3 0 1 1 0 6 3 3 0 0 1 0-6M2.5 14c.5-3 2.6-4.5 5.5-4.5s5 1.500 5.500 4.500', policy: 'M3.500 2h6l3 3v9h-9zM6 8h4M6 10.500h4',
  audit: 'M4 3h10M4 8h10M4 13h10M1.500 3h.5M1.500 8h.5M1.500 13h.5', admin: 'M2 4h8M13 4h1M2 8h3M8 8h6M2 12h7M12 12h2M10 2.500v3M5.500 6.500v3M9.500 10.500v3',
  search: 'M7 2.500a4.500 4.500 0 1 1 0 9 4.500 4.500 0 0 1 0-9m3.500 8L14 14', copy: 'M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3', menu: 'M2 4h12M2 8h12M2 12h12',
  close: 'm3.500 3.500 9 9m0-9-9 9', sun: 'M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6M8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1m8 8 1 1M3 13l1-1m8-8 1-1',
  moon: 'M13 9.500A5.500 5.500 0 0 1 6.500 3 5.500 5.500 0 1 0 13 9.500', auto: 'M8 2.500a5.500 5.500 0 1 1 0 11zM8 2.500a5.500 5.500 0 1 0 0 11', file: 'M4 2h5l3 3v9H4z',
  folder: 'M2 4h4l1.500 1.500H14V13H2z', down: 'm4 6 4 4 4-4', right: 'm6 4 4 4-4 4', out: 'M6 3H3v10h3M7 8h7m-3-3 3 3-3 3', key: 'M10.500 3a2.500 2.500 0 1 1 0 5 2.500 2.500 0 0 1 0-5M8.700 7.300 3 13h2.500v-2h2',
  box: 'M2.500 5 8 2l5.500 3v6L8 14l-5.500-3zM2.500 5 8 8l5.500-3M8 8v6', clock: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2m0 2.500V8l2.500 1.500', plus: 'M8 3v10M3 8h10',
};

export const Icon = ({ name }: { name: string }): JSX.Element => (
  <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false"><path d={SHAPES[name] ?? 'M3 8h10'} /></svg>
);
