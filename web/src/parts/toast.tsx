// SPDX-License-Identifier: Apache-2.0
// Short messages at the edge, which a screen reader reads out.
import type { JSX } from 'preact';
import { labelled, type Labels, sayError } from '../api';
import { onAnotherPerson } from '../session';
import { Store, useStore } from '../store';
import { visible } from '../text';
import type { Tone } from './basics';

interface Toast {
  number: number;
  text: string;
  tone: Tone;
}

const MAX_TOASTS = 4;
const toasts = new Store<Toast[]>([]);
let count = 0;
onAnotherPerson(() => toasts.set([]));

const drop = (number: number): void => toasts.set(toasts.value.filter((one) => one.number !== number));

export function toast(text: string, tone: Tone = 'plain'): void {
  const number = (count += 1);
  toasts.set([...toasts.value, { number, text: visible(text).slice(0, 400), tone }].slice(-MAX_TOASTS));
  setTimeout(() => drop(number), tone === 'bad' ? 12_000 : 5000);
}

export const toastError = (error: unknown): void => toast(sayError(error), 'bad');

/** Runs an action, and says how it ended, in the words of its form. → whether it succeeded. */
export async function attempt(action: () => Promise<unknown>, done?: string, labels: Labels = {}): Promise<boolean> {
  try {
    await action();
    if (done) toast(done, 'good');
    return true;
  } catch (error) {
    toastError(labelled(error, labels));
    return false;
  }
}

export function Toasts(): JSX.Element {
  const all = useStore(toasts);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {all.map((one) => (
        <div key={one.number} class={`toast tone-${one.tone}`}>
          <span>{one.text}</span>
          <button type="button" aria-label="Dismiss" onClick={() => drop(one.number)}>×</button>
        </div>
      ))}
    </div>
  );
}
