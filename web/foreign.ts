// SPDX-License-Identifier: Apache-2.0
// For the development server, which adds the developer's key to each request.
import type { IncomingHttpHeaders } from 'node:http';

const LOOPBACK = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]+)?$/;

/** Whether another page of the browser asks: it would act with the developer's key. A strange Host is a rebound name. */
export function isForeign(headers: IncomingHttpHeaders): boolean {
  const from = headers['sec-fetch-site'];
  if (from !== undefined && from !== 'same-origin' && from !== 'none') return true;
  if (!LOOPBACK.test(headers.host ?? '')) return true;
  return headers.origin !== undefined && headers.origin !== `http://${headers.host}`;
}
