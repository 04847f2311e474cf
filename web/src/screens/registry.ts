// SPDX-License-Identifier: Apache-2.0
// All screens: where they are, who sees them, and the file that arrives when one is opened.
import type { ComponentType } from 'preact';
import { adminScreens } from './admin/screens';
import { agentScreens } from './agents/screens';
import { auditScreens } from './audit/screens';
import { policyScreens } from './policy/screens';

export interface ScreenProps {
  /** The members of the path, decoded. */
  params: Record<string, string>;
  query: URLSearchParams;
}

export interface Screen {
  /** A pattern such as `executions/:id`. */
  path: string;
  title: string;
  /** One of these permissions suffices; without any, everybody sees the screen. */
  permissions?: string[];
  /** Its place in the navigation. `key` is the second key after `g`. */
  nav?: { group: 'Operate' | 'Govern' | 'Administer'; icon: string; key?: string };
  /** Ids that the search opens here. */
  opens?: { pattern: RegExp; to(id: string): string; what: string };
  load(): Promise<{ default: ComponentType<ScreenProps> }>;
}

const own: Screen[] = [
  { path: '', title: 'Home', nav: { group: 'Operate', icon: 'home', key: 'h' }, load: () => import('./home/home') },
  {
    path: 'approvals', title: 'Approvals', permissions: ['escalation.read'], nav: { group: 'Operate', icon: 'check', key: 'a' },
    load: () => import('./approvals/approvals'),
  },
  {
    path: 'approvals/:id', title: 'Approval', permissions: ['escalation.read'], load: () => import('./approvals/approvals'),
    opens: { pattern: /^ESC-[0-9]{4}-[0-9]{3,12}$/i, to: (id) => `approvals/${id.toUpperCase()}`, what: 'Approval' },
  },
  {
    path: 'executions', title: 'Executions', permissions: ['execution.read'], nav: { group: 'Operate', icon: 'play', key: 'e' },
    load: () => import('./executions/list'),
  },
  {
    path: 'executions/:id', title: 'Execution', permissions: ['execution.read'], load: () => import('./executions/execution'),
    opens: { pattern: /^exec_[0-9a-z]{26}$/, to: (id) => `executions/${id}`, what: 'Execution' },
  },
  {
    path: 'sessions', title: 'Sessions', permissions: ['session.read'], nav: { group: 'Operate', icon: 'terminal', key: 's' },
    load: () => import('./sessions/list'),
  },
  {
    path: 'sessions/:id', title: 'Session', permissions: ['session.read'], load: () => import('./sessions/session'),
    opens: { pattern: /^ses_[0-9a-z]{26}$/, to: (id) => `sessions/${id}`, what: 'Session' },
  },
  {
    path: 'artifacts/:id', title: 'Artifact', permissions: ['artifact.read'], load: () => import('./executions/artifact'),
    opens: { pattern: /^art_[0-9a-z]{26}$/, to: (id) => `artifacts/${id}`, what: 'Artifact' },
  },
  {
    path: 'snapshots/:id', title: 'Snapshot', permissions: ['artifact.read'], load: () => import('./sessions/snapshot'),
    opens: { pattern: /^snap_[0-9a-z]{26}$/, to: (id) => `snapshots/${id}`, what: 'Snapshot' },
  },
];

export const screens: Screen[] = [...own, ...agentScreens, ...policyScreens, ...auditScreens, ...adminScreens];
