// SPDX-License-Identifier: Apache-2.0
// A value with readers: what several parts of the page show is kept in one of these.
import { useEffect, useState } from 'preact/hooks';

export class Store<T> {
  private readers = new Set<() => void>();

  constructor(private now: T) {}

  get value(): T {
    return this.now;
  }

  set(value: T): void {
    if (Object.is(value, this.now)) return;
    this.now = value;
    for (const reader of [...this.readers]) reader();
  }

  subscribe(reader: () => void): () => void {
    this.readers.add(reader);
    return () => void this.readers.delete(reader);
  }
}

/** The store's value; the component is drawn again when the value changes. */
export function useStore<T>(store: Store<T>): T {
  const [, draw] = useState({});
  useEffect(() => store.subscribe(() => draw({})), [store]);
  return store.value;
}

/** A store whose value stays in this browser, if the browser allows. */
export function keptStore<T extends string>(name: string, allowed: readonly T[], initial: T): Store<T> {
  let kept: string | null = null;
  try {
    kept = localStorage.getItem(name);
  } catch {
    // A browser may forbid storage: then the choice lasts as long as the page.
  }
  const store = new Store<T>(allowed.includes(kept as T) ? (kept as T) : initial);
  store.subscribe(() => {
    try {
      localStorage.setItem(name, store.value);
    } catch {
      // As above.
    }
  });
  return store;
}
