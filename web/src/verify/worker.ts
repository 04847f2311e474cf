// SPDX-License-Identifier: Apache-2.0
// Verifies the whole audit log beside the page: see export_walk.ts. The page ends the worker to cancel.
import { walkExport } from './export_walk';
import type { VerifyMessage, VerifyStart } from './protocol';

interface WorkerScope {
  onmessage: ((event: MessageEvent<VerifyStart>) => void) | null;
  postMessage(message: VerifyMessage): void;
}

const scope = self as unknown as WorkerScope;
scope.onmessage = (event) => void walkExport(event.data, (message) => scope.postMessage(message));
