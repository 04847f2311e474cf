// SPDX-License-Identifier: Apache-2.0
import type { Screen } from '../registry';

export const policyScreens: Screen[] = [
  {
    path: 'policy', title: 'Policy', permissions: ['policy.read', 'policy.apply'], nav: { group: 'Govern', icon: 'policy', key: 'p' },
    load: () => import('./index').then((loaded) => ({ default: loaded.PolicyPage })),
    opens: { pattern: /^policy:[0-9]+$/, to: (id) => `policy?tab=versions&version=${id.slice('policy:'.length)}`, what: 'Policy version' },
  },
];
