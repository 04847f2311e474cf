// SPDX-License-Identifier: Apache-2.0
// Each entry's `seq` is the next number of its tenant; in a log of an earlier version it is the position, up to the
// entry `ledger.renumbered` (docs/AUDIT.md, "Numbers").
import type { JsonObject } from './json';

export class Numbering {
  private readonly last = new Map<string, number>();
  private positions = true;
  private own = true;

  /** The problem of this entry's number in words, or the empty string. */
  check(position: number, entry: JsonObject): string {
    const tenant = String(entry['tenant']);
    const number = Number(entry['seq']);
    if (entry['action'] === 'ledger.renumbered') {
      const details = entry['details'] as JsonObject;
      if (!this.positions || details['through'] !== position - 1) {
        return 'it does not end the numbers of all entries before it';
      }
      this.positions = false;
      this.own = true;
    }
    const last = this.last.get(tenant) ?? 0;
    const asPosition = this.positions && number === position;
    const asOwn = this.own && number === last + 1;
    if (!asPosition && !asOwn) return this.wrong(tenant, number, last);
    this.positions = asPosition;
    this.own = asOwn;
    this.last.set(tenant, number);
    return '';
  }

  private wrong(tenant: string, number: number, last: number): string {
    if (!this.own) return `its number is ${number}, though no entry ledger.renumbered stands before it`;
    if (number === last) return `number ${number} of tenant ${tenant} is there twice`;
    if (number < last) return `number ${number} of tenant ${tenant} stands behind number ${last}`;
    return `number ${last + 1} of tenant ${tenant} is missing: number ${number} is the next`;
  }
}
