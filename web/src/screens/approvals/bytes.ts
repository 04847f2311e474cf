// SPDX-License-Identifier: Apache-2.0
// Bytes of a request as text. A byte outside UTF-8 must not hide the rest of a program.

function lengthOf(lead: number): number {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

/** UTF-8 as its characters, and each other byte as `\xNN`. */
export function bytesText(bytes: Uint8Array): string {
  const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const parts: string[] = [];
  let begin = 0;  // of the UTF-8 that is not yet in `parts`
  const take = (end: number): void => {
    if (end > begin) parts.push(strict.decode(bytes.subarray(begin, end)));
  };
  for (let at = 0; at < bytes.length; ) {
    const length = lengthOf(bytes[at] ?? 0);
    if (length === 1 || (length > 1 && isCharacter(strict, bytes.subarray(at, at + length), length))) {
      at += length;
      continue;
    }
    take(at);
    parts.push(`\\x${(bytes[at] ?? 0).toString(16).padStart(2, '0')}`);
    at += 1;
    begin = at;
  }
  take(bytes.length);
  return parts.join('');
}

function isCharacter(strict: TextDecoder, bytes: Uint8Array, length: number): boolean {
  if (bytes.length < length) return false;
  try {
    strict.decode(bytes);
    return true;
  } catch {
    return false;
  }
}
