// SPDX-License-Identifier: Apache-2.0
// SHA-256 and Ed25519 by WebCrypto. A browser without Ed25519 there gets the pinned library (ADR 0118).

const encoder = new TextEncoder();

export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(text);
}

export function hex(bytes: Uint8Array): string {
  let out = '';
  for (const byte of bytes) out += byte.toString(16).padStart(2, '0');
  return out;
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const plain = atob(text);
  const out = new Uint8Array(plain.length);
  for (let i = 0; i < plain.length; i++) out[i] = plain.charCodeAt(i);
  return out;
}

/** WebCrypto exists over HTTPS and on loopback only. */
export function available(): boolean {
  return typeof crypto !== 'undefined' && crypto.subtle !== undefined;
}

export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
}

export async function sha256Hex(text: string | Uint8Array<ArrayBuffer>): Promise<string> {
  return hex(await sha256(typeof text === 'string' ? bytesOf(text) : text));
}

/** The id of a public key: the first 16 hex digits of its SHA-256. */
export async function keyId(key: Uint8Array<ArrayBuffer>): Promise<string> {
  return (await sha256Hex(key)).slice(0, 16);
}

export async function verifySignature(
  key: Uint8Array<ArrayBuffer>,
  text: string,
  signature: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  if (key.length !== 32 || signature.length !== 64) return false;
  let imported: CryptoKey;
  try {
    imported = await crypto.subtle.importKey('raw', key, { name: 'Ed25519' }, false, ['verify']);
  } catch (error) {
    if (!(error instanceof DOMException) || error.name !== 'NotSupportedError') return false;
    const library = await import('@noble/ed25519');
    return await library.verifyAsync(signature, bytesOf(text), key, { zip215: false }).catch(() => false);
  }
  return await crypto.subtle.verify({ name: 'Ed25519' }, imported, signature, bytesOf(text));
}
