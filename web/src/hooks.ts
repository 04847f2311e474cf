// SPDX-License-Identifier: Apache-2.0
// Reading the API from a component.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { get, isAbort, type Query } from './api';
import { following, spliced, type Mark } from './pages';

export interface Reading<T> {
  /** The last answer; stays while it is read again. */
  data: T | null;
  error: unknown;
  loading: boolean;
  reload(): void;
  set(data: T): void;
}

/** Reads what `key` stands for, and again every `every` seconds while the page is seen. null reads nothing. */
export function useReading<T>(key: string, from: ((signal: AbortSignal) => Promise<T>) | null, every = 0): Reading<T> {
  const [state, setState] = useState<{ key: string; data: T | null; error: unknown; loading: boolean }>({ key: '', data: null, error: null, loading: from !== null });
  const [round, setRound] = useState(0);
  const latest = useRef(from);
  latest.current = from;
  useEffect(() => {
    if (latest.current === null) return undefined;
    const abort = new AbortController();
    let timer = 0;
    const again = (): void => {
      if (every && !abort.signal.aborted) timer = window.setTimeout(() => (document.hidden ? again() : read()), every * 1000);
    };
    const read = (): void => {
      latest.current?.(abort.signal).then(
        (data) => {
          if (abort.signal.aborted) return;
          setState({ key, data, error: null, loading: false });
          again();
        },
        (error: unknown) => {
          if (abort.signal.aborted || isAbort(error)) return;
          setState((old) => ({ key, data: old.key === key ? old.data : null, error, loading: false }));
          again();
        });
    };
    setState((old) => (old.key === key ? { ...old, loading: true } : { key, data: null, error: null, loading: true }));
    read();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key, round, every]);
  const reload = useCallback(() => setRound((now) => now + 1), []);
  const set = useCallback((data: T) => setState((old) => ({ ...old, data, error: null, loading: false })), []);
  const fresh = state.key === key;  // never the rows of another path, even for one frame
  return { data: fresh ? state.data : null, error: fresh ? state.error : null, loading: fresh ? state.loading : from !== null, reload, set };
}

/** Reads a path, as useReading. */
export function useApi<T>(path: string | null, { query = {}, every }: { query?: Query; every?: number } = {}): Reading<T> {
  const key = path === null ? '' : `${path}?${JSON.stringify(query)}`;
  return useReading<T>(key, path === null ? null : (signal) => get<T>(path, { query, signal }), every);
}

export interface Pages<T> {
  rows: T[];
  error: unknown;
  loading: boolean;
  /** Whether there are further rows. */
  more: boolean;
  loadMore(): void;
  reload(): void;
}

interface PagesState<T> {
  key: string;
  rows: T[];
  cursor: string | null;
  error: unknown;
  loading: boolean;
}

const MAX_ROWS = 20_000;

/**
 * Reads a list page by page, `member` being the name of the rows in the answer. With `every`, the first page is read
 * again each so many seconds, and its rows replace or precede the rows at hand; so is one later page, each in its turn.
 */
export function usePages<T extends object>(
  path: string | null, member: string, options: { query?: Query; every?: number; limit?: number; id?: (row: T) => string } = {},
): Pages<T> {
  const key = path === null ? '' : `${path}?${JSON.stringify(options.query ?? {})}`;
  const [state, setState] = useState<PagesState<T>>({ key, rows: [], cursor: null, error: null, loading: path !== null });
  const [round, setRound] = useState(0);
  const busy = useRef(false);
  const current = useRef(state);
  current.current = state;
  const idOf = options.id ?? ((row: T): string => String((row as { id?: unknown }).id));
  const limit = options.limit ?? 200;
  const fetchPage = (cursor: string | null, signal: AbortSignal | undefined) =>
    get<Record<string, unknown>>(path ?? '', { query: { ...options.query, limit, cursor }, signal }).then((body) => ({
      rows: (body[member] ?? []) as T[], cursor: (body['next_cursor'] ?? null) as string | null,
    }));
  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    let timer = 0;
    let later: Mark | null = null;
    const again = (): void => {
      if (options.every && !abort.signal.aborted) timer = window.setTimeout(() => read(true), options.every * 1000);
    };
    const readLater = async (mark: Mark): Promise<void> => {
      const page = await fetchPage(mark.cursor, abort.signal);
      if (abort.signal.aborted) return;
      later = null;
      setState((old) => {
        const made = old.key === key ? spliced(old, mark, page, idOf) : null;
        later = made?.next ?? null;
        return made ? { ...old, rows: made.rows, cursor: made.cursor } : old;
      });
    };
    const read = (merge: boolean): void => {
      if (merge && document.hidden) return again();
      fetchPage(null, abort.signal).then(
        async (page) => {
          if (abort.signal.aborted) return;
          let rest: T[] = [];
          setState((old) => {  // at once: Preact does not wait for the next drawing
            rest = merge && old.key === key ? following(old.rows, page.rows, page.cursor, idOf) : [];
            return { key, rows: [...page.rows, ...rest], cursor: rest.length > 0 ? old.cursor : page.cursor, error: null, loading: false };
          });
          const last = page.rows.at(-1);
          if (rest.length > 0 && last && page.cursor) await readLater(later ?? { id: idOf(last), cursor: page.cursor }).catch(() => undefined);
          again();
        },
        (error: unknown) => {
          if (abort.signal.aborted || isAbort(error)) return;
          setState((old) => ({ ...old, key, rows: old.key === key ? old.rows : [], error, loading: false }));
          again();
        });
    };
    setState((old) => (old.key === key ? { ...old, loading: true } : { key, rows: [], cursor: null, error: null, loading: true }));
    read(false);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key, round, options.every]);
  const loadMore = useCallback(() => {
    const { cursor, rows } = current.current;
    if (busy.current || !cursor || rows.length >= MAX_ROWS || current.current.key !== key) return;
    busy.current = true;
    fetchPage(cursor, undefined).then(
      (page) => setState((old) => {
        if (old.key !== key) return old;
        const known = new Set(old.rows.map(idOf));
        return { ...old, rows: [...old.rows, ...page.rows.filter((row) => !known.has(idOf(row)))], cursor: page.cursor };
      }),
      (error: unknown) => setState((old) => ({ ...old, error })),
    ).finally(() => {
      busy.current = false;
    });
  }, [key]);
  const reload = useCallback(() => setRound((now) => now + 1), []);
  const fresh = state.key === key;
  return {
    rows: fresh ? state.rows : [], error: fresh ? state.error : null, loading: fresh ? state.loading : path !== null,
    more: fresh && state.cursor !== null && state.rows.length < MAX_ROWS, loadMore, reload,
  };
}

/** The seconds since the page was drawn, in steps: for texts such as "3 min ago". */
export function useClock(everySeconds: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everySeconds * 1000);
    return () => clearInterval(timer);
  }, [everySeconds]);
  return now;
}

/** Whether a media query holds. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const changed = (): void => setHolds(list.matches);
    changed();
    list.addEventListener('change', changed);
    return () => list.removeEventListener('change', changed);
  }, [query]);
  return holds;
}

let ids = 0;

/** An id for `for` and `aria-describedby`. */
export function useId(): string {
  const [id] = useState(() => `u${(ids += 1)}`);
  return id;
}
