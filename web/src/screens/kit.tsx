// SPDX-License-Identifier: Apache-2.0
// What the screens of agents, policy, audit and administration share beyond the parts of every screen.
import { cloneElement, type ComponentChildren, type JSX, type VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import * as calls from '../api';
import { type Reading, useReading } from '../hooks';
import {
  Bytes as BytesPart, ConfirmTyped as ConfirmTypedPart, Dialog as DialogPart, type DialogProps, ErrorState, Field as FieldPart, Page as PagePart, Status, Table as TablePart,
  TabPanel, Tabs as TabsPart, timeZone, type Tone, Untrusted, useTab,
} from '../parts';
import { approvalPath } from '../places';
import { Link } from '../router';
import { offer } from '../save';
import { may } from '../session';
import { useStore } from '../store';
import { visible } from '../text';

export { ApiError, apiUrl } from '../api';
export { Confirm, Empty, Loading, TextDiff, Time, toast, Untrusted } from '../parts';
export { Link, navigate as go, useGuard } from '../router';
export { may } from '../session';

/** Only an administrator may set the quotas of tenants, and only an administrator sees every tenant. */
export const isAdmin = (): boolean => may('quota.grant');

/** All rows of a list, page by page, at most `most`. */
async function all<T>(path: string, member: string, most: number, signal?: AbortSignal): Promise<T[]> {
  const rows: T[] = [];
  for (let cursor: string | null = null; ; ) {
    const page: Record<string, unknown> = await calls.get<Record<string, unknown>>(path, { query: { cursor }, signal });
    rows.push(...(page[member] as T[]));
    cursor = page['next_cursor'] as string | null;
    if (cursor === null || cursor === undefined || rows.length >= most) return rows;
  }
}

/** The bytes of an answer as text, for what is hashed: JSON.parse would lose digits of large numbers. */
async function text(path: string, options?: calls.RequestOptions): Promise<string> {
  return await (await calls.request('GET', path, options)).text();
}

/** Saves an answer as a file. The request comes from the page, since the cookie is no credential of a document. */
async function save(path: string, name: string): Promise<void> {
  offer(await (await calls.request('GET', path, { headers: { Accept: '*/*' } })).blob(), name);
}

export const api = { ...calls, all, text, offer, save };

/** Reads a path, or whatever a function reads, and again every `everyMs` while the page is seen. */
export const useLoad = <T,>(source: string | ((signal: AbortSignal) => Promise<T>), deps: unknown[], everyMs = 0): Reading<T> =>
  useReading<T>(JSON.stringify([typeof source === 'string' ? source : '', ...deps]), typeof source === 'string' ? (signal) => calls.get<T>(source, { signal }) : source, everyMs / 1000);

export interface Action {
  busy: boolean;
  error: unknown;
  /** Runs one action at a time; its error stays until the next one. */
  run(action: () => Promise<unknown>): Promise<void>;
}

export function useAction(): Action {
  const [state, setState] = useState<{ busy: boolean; error: unknown }>({ busy: false, error: null });
  const gone = useRef(false);
  useEffect(() => () => void (gone.current = true), []);
  const run = async (action: () => Promise<unknown>): Promise<void> => {
    setState({ busy: true, error: null });
    let error: unknown = null;
    try {
      await action();
    } catch (failed) {
      error = failed;
    }
    if (!gone.current) setState({ busy: false, error });
  };
  return { ...state, run };
}

export interface KitPageProps {
  title: string;
  subtitle?: string;
  actions?: ComponentChildren;
  up?: { to: string; label: string };
  /** The content fills the window, as a table with `fill` does. */
  full?: boolean;
  children: ComponentChildren;
}

export function Page({ subtitle, title, ...rest }: KitPageProps): JSX.Element {
  return <PagePart {...rest} title={visible(title)} lead={subtitle === undefined ? undefined : <Untrusted value={subtitle} />} />;
}

export interface TabContent {
  id: string;
  label: string;
  content(): JSX.Element;
}

export function Tabs({ tabs, label }: { tabs: TabContent[]; label: string }): JSX.Element {
  const current = useTab(tabs.map((each) => each.id));
  const chosen = tabs.find((each) => each.id === current);
  return (
    <>
      <TabsPart label={label} current={current} tabs={tabs.map((each) => ({ key: each.id, label: each.label }))} />
      <TabPanel tab={current}>{chosen?.content()}</TabPanel>
    </>
  );
}

/** A field with one control, which gets the id of the label and of the hint. */
export const Field = ({ label, hint, error, children }: { label: string; hint?: string; error?: string | null; children: VNode }): JSX.Element =>
  <FieldPart label={label} hint={hint} error={error ?? null}>{(attributes) => cloneElement(children, attributes)}</FieldPart>;

const TONES: Record<string, Tone> = { ok: 'good', bad: 'bad', warn: 'warn', neutral: 'plain' };

export const Badge = ({ tone, children }: { tone: 'ok' | 'bad' | 'warn' | 'neutral'; children: string }): JSX.Element =>
  <Status value={visible(children)} tone={TONES[tone] ?? 'plain'} />;

export const ErrorBox = ({ error, onRetry, labels }: { error: unknown; onRetry?: () => void; labels?: calls.Labels }): JSX.Element =>
  <ErrorState error={error} {...(onRetry ? { retry: onRetry } : {})} {...(labels ? { labels } : {})} />;

/** A dialog; its title may contain names of clients. */
export const Dialog = ({ title, ...rest }: DialogProps): JSX.Element => <DialogPart {...rest} title={visible(title)} />;

export const Bytes = ({ value }: { value: number }): JSX.Element => <BytesPart count={value} />;

/** The text to type for a thing: its name, or its id where nobody could type the name. */
export const typable = (name: string, id: string): string => (name !== '' && visible(name) === name ? name : id);

export const ConfirmTyped = (props: {
  title: string; expect: string; verb: string; children: ComponentChildren; onConfirm(): Promise<void>; onClose(): void;
}): JSX.Element => <ConfirmTypedPart title={visible(props.title)} typed={props.expect} action={props.verb} onConfirm={props.onConfirm} onClose={props.onClose}>{props.children}</ConfirmTypedPart>;

/** The time of day, local or UTC as the switch says. */
export function Clock({ micros }: { micros: number }): JSX.Element {
  const utc = useStore(timeZone) === 'utc';
  const date = new Date(micros / 1000);
  const shown = utc ? date.toISOString().slice(11, 19) : date.toLocaleTimeString('en-GB');
  return <time dateTime={date.toISOString()} title={`${date.toLocaleString('en-GB')} local, ${date.toISOString().slice(0, 19).replace('T', ' ')} UTC`}>{shown}</time>;
}

export const useUtc = (): boolean => useStore(timeZone) === 'utc';

const PLACES: [RegExp, (id: string, tenant?: string) => string][] = [
  [/^exec_[0-9a-z]+$/, (id) => `executions/${id}`],
  [/^ses_[0-9a-z]+$/, (id) => `sessions/${id}`],
  [/^ESC-[0-9]+-[0-9]+$/, (id, tenant) => approvalPath(id, isAdmin() ? tenant : null)],
  [/^key_[0-9a-z]+$/, (id) => `admin/keys?key=${id}`],
  [/^policy:[0-9]+$/, () => 'policy?tab=versions'],
];

/** An id that leads to its screen, if it has one. `plain`: within a button, so without a link. */
export function IdLink({ id, plain, tenant }: { id: string; plain?: boolean; tenant?: string | undefined }): JSX.Element {
  const place = PLACES.find(([pattern]) => pattern.test(id));
  if (plain || !place) return <bdi class="mono break">{visible(id)}</bdi>;
  return <Link to={place[1](id, tenant)} class="mono break">{id}</Link>;
}

export interface TableColumn<T> {
  id: string;
  title: string;
  text(row: T): string;
  cell?(row: T): ComponentChildren;
  /** A share of the width, such as 2fr, or 150px. */
  width?: string;
  /** Left out on narrow screens. */
  wide?: boolean;
}

export interface TableListProps<T> {
  label: string;
  rows: T[];
  columns: TableColumn<T>[];
  keyOf(row: T): string;
  onOpen?(row: NoInfer<T>): void;
  tools?: ComponentChildren;
  empty?: ComponentChildren;
  /** Fills its place and scrolls itself. */
  fill?: boolean;
}

const FILTER_FROM = 8;

/** A table whose columns sort and filter by their text. */
export function Table<T>({ rows, columns, keyOf, fill, ...rest }: TableListProps<T>): JSX.Element {
  return (
    <TablePart {...rest} rows={rows} id={keyOf} inline={!fill}
      {...(rows.length >= FILTER_FROM ? { filterText: (row: T) => columns.map((each) => each.text(row)).join(' ') } : {})}
      columns={columns.map((each) => ({
        key: each.id, title: each.title, wide: each.wide ?? false, width: each.width?.endsWith('px') ? each.width : `minmax(${each.width ? 140 : 90}px, ${each.width ?? '1fr'})`,
        cell: each.cell ?? ((row: T) => <Untrusted value={each.text(row)} cut={200} />),
        compare: (a: T, b: T) => each.text(a).localeCompare(each.text(b), 'en', { numeric: true }),
      }))} />
  );
}

/** How much of a limit is used. The words carry the meaning, and the bar repeats it. */
export function Gauge({ label, used, limit, unit = '', warning, reserved }: {
  label: string; used: number; limit: number | null; unit?: string; warning?: boolean; reserved?: number | undefined;
}): JSX.Element {
  const suffix = unit ? ` ${unit}` : '';
  const high = warning ?? (limit !== null && used >= 0.8 * limit);
  return (
    <div class="gauge">
      <div class="gauge-words"><span>{label}</span><span>{used}{suffix} {limit === null ? '(no limit)' : `of ${limit}${suffix}`}{reserved ? `, ${reserved} reserved` : ''}</span></div>
      {limit !== null && <meter class={high ? 'high' : ''} aria-label={label} min={0} max={limit} value={Math.min(used, limit)} />}
    </div>
  );
}
