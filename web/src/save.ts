// SPDX-License-Identifier: Apache-2.0
// Files for the person's computer.
import { visible } from './text';

/** A name for a file on the person's computer: letters of any script stay, and nothing that misleads or leads elsewhere. */
export function fileName(name: string): string {
  const base = name.split('/').pop() ?? '';
  const plain = visible(base).replace(/\\u\{[0-9a-f]+\}|[\\:*?"<>|\u21b5\u21e5]/g, '_').replace(/^\.+/, '_');
  return [...plain].slice(-120).join('').trim() || 'file';
}

/** Offers bytes of the page as a file, which the browser does not open. */
export function offer(bytes: BlobPart, name: string): void {
  const url = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = fileName(name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
