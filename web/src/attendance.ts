// SPDX-License-Identifier: Apache-2.0
// Whether a person uses the page. What the page reads by itself must not keep a session from its idle end.

const MINUTE = 60_000;
const SIGNS = ['pointerdown', 'pointermove', 'keydown', 'wheel', 'touchstart', 'focus'];

export class Attendance {
  private last: number;

  constructor(private readonly now: () => number = Date.now) {
    this.last = now();
  }

  note(): void {
    this.last = this.now();
  }

  get attended(): boolean {
    return this.now() - this.last < MINUTE;
  }

  /** For requests of the page. */
  headers(): Record<string, string> {
    return this.attended ? {} : { 'X-Cloister-Unattended': '1' };
  }

  /** Notes a person's signs. */
  watch(window: Pick<Window, 'addEventListener'>): void {
    for (const sign of SIGNS) window.addEventListener(sign, () => this.note(), { capture: true, passive: true });
  }
}

export const attendance = new Attendance();
