// SPDX-License-Identifier: Apache-2.0
// Dates that a person types, in the zone of the switch in the navigation.

const TYPED = /^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?$/;

/** The instant of a day or of a day with a time, in RFC 3339; any other text stays as it is, for the service to judge. */
export function instantOf(text: string, utc: boolean): string {
  const typed = text.trim();
  if (!TYPED.test(typed)) return typed;
  const date = new Date(`${typed.includes('T') ? typed : `${typed}T00:00`}${utc ? 'Z' : ''}`);
  return Number.isNaN(date.getTime()) ? typed : date.toISOString();
}

export const zoneName = (utc: boolean): string => (utc ? 'UTC' : 'local time');
