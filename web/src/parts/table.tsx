// SPDX-License-Identifier: Apache-2.0
// A table of any length: only the rows in sight are in the page. ARIA grid, with the active row as active descendant.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useId } from '../hooks';
import { navigate } from '../router';
import { Button, ErrorState, Loading } from './basics';
import { visibleWindow } from './window';

export interface Column<T> {
  key: string;
  title: string;
  /** A track of CSS grid, such as `120px` or `minmax(120px, 2fr)`. Default: minmax(80px, 1fr). */
  width?: string;
  align?: 'end';
  cell(row: T): ComponentChildren;
  /** Gives the column a button to sort by it. */
  compare?(a: T, b: T): number;
  /** Left out on narrow screens. */
  wide?: boolean;
}

export interface TableProps<T> {
  label: string;
  rows: T[];
  columns: Column<T>[];
  id(row: T): string;
  /** Where Enter and a click lead. */
  to?(row: T): string;
  /** Instead of `to`. */
  onOpen?(row: T): void;
  selected?: ReadonlySet<string>;
  onSelect?(selected: Set<string>): void;
  /** The text that the filter searches; without it there is no filter. */
  filterText?(row: T): string;
  /** Beside the filter: further filters and buttons. */
  tools?: ComponentChildren;
  /** What to show without rows; says the next step. */
  empty?: ComponentChildren;
  loading?: boolean;
  error?: unknown;
  retry?(): void;
  /** Called when the last rows come into sight. */
  onEnd?(): void;
  more?: boolean;
  /** The row of a detail pane beside the table. */
  current?: string | null;
  /** Rows that fit without scrolling of the table itself; default: it fills its place. */
  inline?: boolean;
}

const ROW_HEIGHT = 36;
const RECYCLED = 180;  // rows that scroll out are drawn anew as those that scroll in: no element is made

interface Sort {
  key: string;
  down: boolean;
}

/** What the tracks, the gaps between them and the padding need: below that the table scrolls sideways. */
function leastWidth(template: string, narrow: boolean): number {
  const tracks = template.match(/[0-9]+px/g) ?? [];
  return tracks.reduce((sum, track) => sum + Number.parseInt(track, 10), 0) + (tracks.length - 1) * (narrow ? 8 : 12) + (narrow ? 4 : 16);
}

export function Table<T>(props: TableProps<T>): JSX.Element {
  const base = useId();
  const body = useRef<HTMLDivElement>(null);
  const filterInput = useRef<HTMLInputElement>(null);
  const [filter, setFilter] = useState('');
  const [sort, setSort] = useState<Sort | null>(null);
  const [active, setActive] = useState<string | null>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 600, width: 800 });

  const columns = scroll.width < 600 ? props.columns.filter((column) => !column.wide) : props.columns;
  const rows = useMemo(() => {
    const wanted = filter.trim().toLowerCase();
    let shown = props.rows;
    if (wanted && props.filterText) shown = shown.filter((row) => props.filterText?.(row).toLowerCase().includes(wanted));
    const compare = sort && props.columns.find((column) => column.key === sort.key)?.compare;
    if (compare) shown = [...shown].sort((a, b) => (sort.down ? compare(b, a) : compare(a, b)));
    return shown;
  }, [props.rows, filter, sort, props.columns]);
  const activeIndex = rows.findIndex((row) => props.id(row) === active);  // -1: no row is highlighted

  useLayoutEffect(() => {
    const element = body.current;
    if (!element) return undefined;
    const measure = (): void => setScroll({ top: element.scrollTop, height: element.clientHeight, width: element.clientWidth });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const head = ROW_HEIGHT;
  const range = props.inline && rows.length <= 150
    ? { first: 0, last: rows.length }
    : visibleWindow(Math.max(0, scroll.top - head), scroll.height, ROW_HEIGHT, rows.length);
  // A filter or an order would read the whole list, page by page: then a person asks for the next page.
  const partial = Boolean(props.more && props.onEnd && (filter.trim() || sort));
  useEffect(() => {
    if (props.more && !partial && range.last >= rows.length - 5) props.onEnd?.();
  }, [range.last, rows.length, props.more, partial]);

  const open = (row: T): void => {
    setActive(props.id(row));
    if (props.onOpen) props.onOpen(row);
    else if (props.to) navigate(props.to(row));
  };
  const move = (index: number): void => {
    const row = rows[Math.min(rows.length - 1, Math.max(0, index))];
    if (row === undefined) return;
    setActive(props.id(row));
    const top = rows.indexOf(row) * ROW_HEIGHT;
    const element = body.current;
    if (!element) return;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_HEIGHT + head > element.scrollTop + element.clientHeight) element.scrollTop = top + ROW_HEIGHT + head - element.clientHeight;
  };
  const toggle = (row: T): void => {
    if (!props.onSelect) return;
    const next = new Set(props.selected);
    const id = props.id(row);
    if (!next.delete(id)) next.add(id);
    props.onSelect(next);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof HTMLInputElement && event.target.type !== 'checkbox') return;
    const row = rows[activeIndex];
    const page = Math.max(1, Math.floor(scroll.height / ROW_HEIGHT) - 2);
    switch (event.key) {
      case 'ArrowDown': case 'j': move(activeIndex + 1); break;
      case 'ArrowUp': case 'k': move(activeIndex - 1); break;
      case 'PageDown': move(activeIndex + page); break;
      case 'PageUp': move(activeIndex - page); break;
      case 'Home': move(0); break;
      case 'End': move(rows.length - 1); break;
      case 'Enter': if (event.target !== body.current || !row) return; open(row); break;
      case 'x': case ' ': if (!props.onSelect || !row || event.target !== body.current) return; toggle(row); break;
      case 'Escape': if (!props.selected?.size) return; props.onSelect?.(new Set()); break;
      default: return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const template = [props.onSelect ? '32px' : '', ...columns.map((column) => column.width ?? 'minmax(80px, 1fr)')].filter(Boolean).join(' ');
  const minWidth = `${leastWidth(template, scroll.width < 600)}px`;
  const allSelected = rows.length > 0 && rows.every((row) => props.selected?.has(props.id(row)));
  const offset = props.onSelect ? 2 : 1;

  return (
    <div class={`table ${props.inline ? 'inline' : ''} ${scroll.width < 600 ? 'narrow' : ''}`}>
      {(props.filterText || props.tools || partial) && (
        <div class="table-tools">
          {props.filterText && (
            <input
              ref={filterInput} type="search" data-table-filter="" class="table-filter" aria-label={`Filter ${props.label}`} placeholder="Filter (/)" value={filter}
              onInput={(event) => setFilter(event.currentTarget.value)}
              onKeyDown={(event) => {
                if (event.key === 'Escape') setFilter('');
                if (event.key === 'Escape' || event.key === 'ArrowDown' || event.key === 'Enter') body.current?.focus();
              }}
            />
          )}
          {props.tools}
          <span class="table-count" aria-live="polite">
            {rows.length === props.rows.length ? rows.length : `${rows.length} of ${props.rows.length}`}{props.more ? '+' : ''}
          </span>
          {partial && (
            <span class="row">
              <span class="hint" role="status">{sort ? 'Sorted' : 'Searched'}: the newest {props.rows.length} alone.</span>
              <Button small onClick={props.onEnd}>Read more</Button>
            </span>
          )}
        </div>
      )}
      {props.error ? <ErrorState error={props.error} {...(props.retry ? { retry: props.retry } : {})} /> : null}
      <div
        ref={body} class="table-body" role="grid" tabIndex={0} aria-label={props.label} aria-rowcount={props.more ? -1 : rows.length + 1}
        aria-colcount={columns.length + offset - 1} aria-multiselectable={props.onSelect ? 'true' : undefined} aria-busy={props.loading ? 'true' : undefined}
        aria-activedescendant={active !== null && rows[activeIndex] && activeIndex >= range.first && activeIndex < range.last ? `${base}-${activeIndex}` : undefined}
        onScroll={(event) => setScroll({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight, width: event.currentTarget.clientWidth })}
        onKeyDown={onKeyDown}
      >
        <div role="rowgroup" class="table-head" style={{ minWidth }}>
          <div role="row" aria-rowindex={1} class="table-row" style={{ gridTemplateColumns: template }}>
            {props.onSelect && (
              <div role="columnheader" aria-colindex={1}>
                <input
                  type="checkbox" tabIndex={-1} aria-label="Select all" checked={allSelected}
                  onChange={() => props.onSelect?.(allSelected ? new Set() : new Set(rows.map(props.id)))}
                />
              </div>
            )}
            {columns.map((column, index) => (
              <div
                key={column.key} role="columnheader" aria-colindex={index + offset} class={column.align === 'end' ? 'end' : ''}
                aria-sort={sort?.key === column.key ? (sort.down ? 'descending' : 'ascending') : undefined}
              >
                {column.compare
                  ? (
                    <button type="button" class="sort" onClick={() => setSort(sort?.key === column.key ? (sort.down ? null : { key: column.key, down: true }) : { key: column.key, down: false })}>
                      {column.title}<span aria-hidden="true">{sort?.key === column.key ? (sort.down ? ' ↓' : ' ↑') : ''}</span>
                    </button>
                  )
                  : (column.title || <span class="sr">Actions</span>)}
              </div>
            ))}
          </div>
        </div>
        {rows.length > 0 && (
          <div role="rowgroup" class="table-rows" style={{ height: `${rows.length * ROW_HEIGHT}px`, minWidth }}>
            {rows.slice(range.first, range.last).map((row, at) => {
              const index = range.first + at;
              const id = props.id(row);
              const chosen = props.selected?.has(id) ?? false;
              return (
                <div
                  key={index % RECYCLED} id={`${base}-${index}`} role="row" aria-rowindex={index + 2} aria-selected={props.onSelect ? chosen : undefined}
                  class={`table-row data ${id === active ? 'active' : ''} ${chosen ? 'chosen' : ''} ${id === props.current ? 'current' : ''} ${props.to || props.onOpen ? 'opens' : ''}`}
                  style={{ gridTemplateColumns: template, transform: `translateY(${index * ROW_HEIGHT}px)` }}
                  onClick={(event) => {
                    if (event.target instanceof Element && event.target.closest('a, button, input, select')) return;
                    if (String(getSelection() ?? '') === '') open(row);
                  }}
                >
                  {props.onSelect && (
                    <div role="gridcell" aria-colindex={1}>
                      <input type="checkbox" tabIndex={-1} checked={chosen} aria-label={`Select ${id}`} onChange={() => toggle(row)} />
                    </div>
                  )}
                  {columns.map((column, column_index) => (
                    <div key={column.key} role="gridcell" aria-colindex={column_index + offset} class={column.align === 'end' ? 'end' : ''}>{column.cell(row)}</div>
                  ))}
                </div>
              );
            })}
          </div>
        )}
      </div>
      {rows.length === 0 && !props.error && (props.loading ? <Loading what={props.label.toLowerCase()} /> : props.rows.length > 0
        ? <div class="state"><p class="state-title">No row matches “{filter}”.</p><p class="state-text">{props.more ? `The newest ${props.rows.length} rows were searched. Read more, or enter a whole id in the search (Ctrl K).` : `Clear the filter to see all ${props.rows.length}.`}</p></div>
        : (props.empty ?? <div class="state"><p class="state-title">Nothing here yet.</p></div>))}
    </div>
  );
}
