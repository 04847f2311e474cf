// SPDX-License-Identifier: Apache-2.0
import { visible } from '../../text';

/** A name for a file on the person's computer: letters of any script stay, and nothing that misleads or leads elsewhere. */
export function fileName(name: string): string {
  const base = name.split('/').pop() ?? '';
  const plain = visible(base).replace(/\\u\{[0-9a-f]+\}|[\\:*?"<>|\u21b5\u21e5]/g, '_').replace(/^\.+/, '_');
  return [...plain].slice(-120).join('').trim() || 'file';
}
