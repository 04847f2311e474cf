// SPDX-License-Identifier: Apache-2.0
// Node.js 18 has WebCrypto, but no global name for it. Browsers and later versions do.
import { webcrypto } from 'node:crypto';

if (globalThis.crypto === undefined) Object.defineProperty(globalThis, 'crypto', { value: webcrypto });
