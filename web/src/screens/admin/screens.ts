// SPDX-License-Identifier: Apache-2.0
// One screen for each kind of thing that is administered. Its permission is that of its first route.
import type { Screen } from '../registry';

type Pages = typeof import('./index');

const screen = (path: string, title: string, permission: string, icon: string, page: keyof Pages, more: Partial<Screen> = {}): Screen => ({
  path: `admin/${path}`, title, permissions: [permission], nav: { group: 'Administer', icon },
  load: () => import('./index').then((loaded) => ({ default: loaded[page] })), ...more,
});

export const adminScreens: Screen[] = [
  screen('quotas', 'Tenants and quotas', 'quota.read', 'admin', 'Quotas'),
  screen('keys', 'Keys and people', 'key.read', 'key', 'Keys', {
    opens: { pattern: /^key_[0-9a-z]{26}$/, to: (id) => `admin/keys?key=${id}`, what: 'Key' },
  }),
  screen('secrets', 'Secrets', 'secret.read', 'key', 'Secrets'),
  screen('images', 'Images', 'service.read', 'box', 'Images'),
  screen('packages', 'Packages', 'artifact.read', 'box', 'Layers'),
  screen('servers', 'Servers and tools', 'session.read', 'terminal', 'Servers'),
  screen('nodes', 'Nodes and pools', 'service.read', 'box', 'Nodes'),
];
