// SPDX-License-Identifier: Apache-2.0
// Text that a person typed and that is nowhere else. When a sign-in ends, the page keeps it in its memory alone, for the same
// person, screen and field.
import { useEffect, useState } from 'preact/hooks';
import { currentRoute, guardPage } from './router';
import { onLeaving, personOf, session } from './session';

const MAX_BYTES = 8 * 1024 * 1024;
const MAX_VALUES = 100;

const shelves: { readonly hasUnsaved: boolean }[] = [];
let release: (() => void) | null = null;

/** While a shelf has something unsaved, the browser asks before the page closes. */
function guardShelves(): void {
  const unsaved = shelves.some((shelf) => shelf.hasUnsaved);
  if (unsaved && !release) release = guardPage();
  if (unsaved || !release) return;
  release();
  release = null;
}

/** Values by key, of one person: a sign-out and another person's sign-in remove them. Within the bounds the oldest go first. */
export class Shelf<T> {
  private readonly kept = new Map<string, { value: T; bytes: number; unsaved: boolean }>();
  private bytes = 0;

  constructor(private readonly bytesOf: (value: T) => number, private readonly maxBytes = MAX_BYTES, private readonly maxValues = MAX_VALUES) {
    shelves.push(this);
    onLeaving(() => {
      for (const key of [...this.kept.keys()]) this.remove(key);
    });
  }

  get hasUnsaved(): boolean {
    return [...this.kept.values()].some((one) => one.unsaved);
  }

  get(key: string): T | undefined {
    return this.kept.get(key)?.value;
  }

  take(key: string): T | undefined {
    const value = this.get(key);
    this.remove(key);
    return value;
  }

  /** → whether it fits, and nothing had to go for it. */
  put(key: string, value: T, unsaved = true): boolean {
    this.remove(key);
    const bytes = this.bytesOf(value);
    if (bytes > this.maxBytes) return false;
    let whole = true;
    for (const oldest of [...this.kept.keys()]) {
      if (this.bytes + bytes <= this.maxBytes && this.kept.size < this.maxValues) break;
      this.remove(oldest);
      whole = false;
    }
    this.kept.set(key, { value, bytes, unsaved });
    this.bytes += bytes;
    guardShelves();
    return whole;
  }

  private remove(key: string): void {
    this.bytes -= this.kept.get(key)?.bytes ?? 0;
    if (this.kept.delete(key)) guardShelves();
  }
}

/** As JSON; the key names the person, the address of the screen, and the field. */
const drafts = new Shelf<string>((text) => 2 * text.length);
let cut = false;
session.subscribe(() => {
  if (session.value.state === 'in') cut = false;
});

/** What waits for the person who was signed in: nothing, text, or text of which a part was too large. */
export function waiting(): 'nothing' | 'text' | 'part' {
  if (cut) return 'part';
  return shelves.some((shelf) => shelf.hasUnsaved) ? 'text' : 'nothing';
}

interface Slot<T> {
  key: string;
  value: T;
  isTyped(value: T): boolean;
}

function slotOf<T>(field: string, initial: T): Slot<T> {
  const person = session.value.state === 'in' ? personOf(session.value.principal) : '';
  const key = JSON.stringify([person, currentRoute().path, field]);
  const kept = drafts.take(key);
  const first = JSON.stringify(initial);
  return { key, value: kept === undefined ? initial : (JSON.parse(kept) as T), isTyped: (value) => JSON.stringify(value) !== first };
}

/** After the sign-in ended by itself. Who closes a form, leaves a screen or signs out wants nothing back. */
function keep<T>({ key, value, isTyped }: Slot<T>): void {
  if (session.value.state !== 'out' || !session.value.ended || !isTyped(value)) return;
  if (!drafts.put(key, JSON.stringify(value))) cut = true;
}

/**
 * As useState, for what a person types: the value comes back when the sign-in ended meanwhile. Never for secrets.
 * `isTyped`: whether the value has something of the person; default: it is another one than at first.
 */
export function useDraft<T>(field: string, initial: T, isTyped?: (value: T) => boolean): [T, (value: T | ((old: T) => T)) => void] {
  const [slot] = useState(() => slotOf(field, initial));
  const [value, set] = useState(slot.value);
  slot.value = value;
  if (isTyped) slot.isTyped = isTyped;
  useEffect(() => () => keep(slot), []);
  return [value, set];
}
