// SPDX-License-Identifier: Apache-2.0
import type { Screen } from '../registry';

const load = (): ReturnType<Screen['load']> => import('./index').then((loaded) => ({ default: loaded.AgentsPage }));

export const agentScreens: Screen[] = [
  { path: 'agents', title: 'Agents', permissions: ['agent.read'], nav: { group: 'Govern', icon: 'agent', key: 'g' }, load },
  { path: 'agents/:tenant/:agent', title: 'Agent', permissions: ['agent.read'], load },
];
