// SPDX-License-Identifier: Apache-2.0
// Amounts with units: sizes ("512MB", "2g"), times in seconds or as "30s" and "1h", processors (0.5, "500m").

import { InvalidRequest } from "./errors.js";

// A number is MiB, or bytes where the argument says so. MB and m mean MiB, as memory_mb of the API does.
export type Size = number | string;
// A number is seconds.
export type Duration = number | string;
// A number is cores.
export type Cores = number | string;

const AMOUNT = /^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*$/;
const BYTES: Record<string, number> = { b: 1, k: 2 ** 10, kb: 2 ** 10, kib: 2 ** 10, m: 2 ** 20, mb: 2 ** 20, mib: 2 ** 20,
  g: 2 ** 30, gb: 2 ** 30, gib: 2 ** 30, t: 2 ** 40, tb: 2 ** 40, tib: 2 ** 40 };
const SECONDS: Record<string, number> = { ms: 0.001, s: 1, sec: 1, m: 60, min: 60, h: 3600, d: 86400 };

// The value times its unit. Throws InvalidRequest for anything but a positive amount.
function amount(name: string, value: unknown, units: Record<string, number>, plain: number, remedy: string): number {
  const found = typeof value === "string" ? AMOUNT.exec(value) : null;
  const scale = found ? (found[2] ? units[found[2].toLowerCase()] : plain) : undefined;
  const result = typeof value === "number" ? value * plain : found && scale !== undefined ? Number(found[1]) * scale : NaN;
  if (Number.isFinite(result) && result > 0) return result;
  throw new InvalidRequest(`${name}: ${JSON.stringify(value)} is not understood`, { field: name, remedy });
}

export function sizeBytes(name: string, value: Size, unit: number): number {
  return Math.ceil(amount(name, value, BYTES, unit, 'give a size such as "512MB" or "2g"'));
}

// MiB, rounded up.
export function mebibytes(name: string, value: Size): number {
  return Math.ceil(sizeBytes(name, value, 2 ** 20) / 2 ** 20);
}

export function seconds(name: string, value: Duration): number {
  return amount(name, value, SECONDS, 1, 'give a time such as 30, "30s" or "1h"');
}

export function cpuMillis(name: string, value: Cores): number {
  return Math.max(1, Math.round(amount(name, value, { m: 1 }, 1000, 'give cores such as 0.5, 2 or "500m"')));
}
