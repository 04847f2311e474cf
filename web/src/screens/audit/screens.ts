// SPDX-License-Identifier: Apache-2.0
import type { Screen } from '../registry';

export const auditScreens: Screen[] = [
  {
    path: 'audit', title: 'Audit', permissions: ['audit.read'], nav: { group: 'Govern', icon: 'audit', key: 'l' },
    load: () => import('./index').then((loaded) => ({ default: loaded.AuditPage })),
  },
];
