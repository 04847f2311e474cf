// SPDX-License-Identifier: Apache-2.0
// Navigation at the left, the screen beside it, and the keys that work everywhere.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Icon, Key, timeZone } from '../parts/basics';
import { Dialog } from '../parts/dialog';
import { toast } from '../parts/toast';
import { Link, mayLeave, navigate, useRoute } from '../router';
import { screens } from '../screens/registry';
import { session, signOut, type UiConfig } from '../session';
import { keptStore, useStore } from '../store';
import { visible } from '../text';
import { allowed } from './app';
import { Palette } from './palette';
import { Mark } from './sign_in';

const theme = keptStore('cloister.theme', ['auto', 'light', 'dark'] as const, 'auto');
const showTheme = (): void => {
  if (theme.value === 'auto') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme.value;
};
showTheme();
theme.subscribe(showTheme);

// The first of the composed path: the editor of policies is in a shadow root, whose host is the target here.
const typing = ([target]: EventTarget[]): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest('.xterm, .cm-editor') !== null);

const leave = async (): Promise<void> => {
  if (!mayLeave()) return;
  const failed = await signOut();
  if (failed) toast(failed, 'bad');
};

export function Frame({ config, children }: { config: UiConfig | null; children: ComponentChildren }): JSX.Element {
  const route = useRoute();
  const [menu, setMenu] = useState(false);
  const [search, setSearch] = useState(false);
  const [help, setHelp] = useState(false);
  useEffect(() => setMenu(false), [route]);
  useEffect(() => {
    let after = 0;
    const onKey = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k' && !(event.target instanceof Element && event.target.closest('.xterm'))) {
        event.preventDefault();
        setSearch(true);
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.composedPath()) || document.querySelector('dialog[open]')) return;
      const second = Date.now() - after < 1200;
      after = 0;
      if (second) {
        const screen = screens.find((one) => one.nav?.key === event.key && allowed(one));
        if (screen) {
          event.preventDefault();
          navigate(screen.path);
        }
        return;
      }
      if (event.key === 'g') after = Date.now();
      if (event.key === '?') setHelp(true);
      if (event.key === '/') {
        event.preventDefault();
        const filter = document.querySelector<HTMLInputElement>('[data-table-filter]');
        if (filter) filter.focus();
        else setSearch(true);
      }
      if (event.key === 'j' || event.key === 'k' || event.key === 'ArrowDown') {
        const grid = document.querySelector<HTMLElement>('[role=grid]');
        if (grid && (document.activeElement === document.body || document.activeElement === null)) grid.focus();
      }
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  return (
    <div class={`frame ${menu ? 'menu-open' : ''}`}>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById('content')?.focus(); }}>Skip to content</a>
      <header class="topbar">
        <button type="button" class="quiet icon-button" aria-label="Menu" aria-expanded={menu} onClick={() => setMenu(!menu)}><Icon name={menu ? 'close' : 'menu'} /></button>
        <Link to="" class="brand"><Mark /> Cloister</Link>
        <button type="button" class="quiet icon-button" aria-label="Search" onClick={() => setSearch(true)}><Icon name="search" /></button>
      </header>
      <Sidebar path={route.path} config={config} onSearch={() => setSearch(true)} onHelp={() => setHelp(true)} />
      {menu && <div class="scrim" onClick={() => setMenu(false)} />}
      <main class="content" id="content" tabIndex={-1}>{children}</main>
      {search && <Palette onClose={() => setSearch(false)} />}
      {help && <Help onClose={() => setHelp(false)} />}
    </div>
  );
}

function Sidebar({ path, config, onSearch, onHelp }: { path: string; config: UiConfig | null; onSearch(): void; onHelp(): void }): JSX.Element {
  const state = useStore(session);
  const zone = useStore(timeZone);
  const shade = useStore(theme);
  if (state.state !== 'in') return <aside class="sidebar" />;
  const { principal } = state;
  const here = (to: string): boolean => (to === '' ? path === '' : path === to || path.startsWith(`${to}/`));
  const next = { auto: 'light', light: 'dark', dark: 'auto' } as const;
  return (
    <aside class="sidebar" aria-label="Cloister">
      <Link to="" class="brand"><Mark /> Cloister</Link>
      <button type="button" class="search-button" onClick={onSearch}><Icon name="search" /><span>Search</span><Key>Ctrl K</Key></button>
      <nav aria-label="Screens">
        {(['Operate', 'Govern', 'Administer'] as const).map((group) => {
          const shown = screens.filter((screen) => screen.nav?.group === group && allowed(screen));
          if (shown.length === 0) return null;
          return (
            <div key={group} class="nav-group">
              <p class="nav-title" id={`nav-${group}`}>{group}</p>
              <ul aria-labelledby={`nav-${group}`}>
                {shown.map((screen) => (
                  <li key={screen.path}>
                    <Link to={screen.path} aria-current={here(screen.path) ? 'page' : undefined}><Icon name={screen.nav?.icon ?? ''} />{screen.title}</Link>
                  </li>
                ))}
              </ul>
            </div>
          );
        })}
      </nav>
      <div class="sidebar-end">
        <p class="who" title={`Tenant ${visible(principal.tenant)}, ${principal.roles.join(', ')}`}>
          <bdi>{visible(principal.user || principal.agent || principal.credential)}</bdi>
          <span class="faint"><bdi>{visible(principal.tenant)}</bdi> · {principal.roles.join(', ')}</span>
        </p>
        <div class="switches">
          <button type="button" class="quiet" title="Light, dark, or as the system" aria-label={`Appearance: ${shade}`} onClick={() => theme.set(next[shade])}>
            <Icon name={shade === 'light' ? 'sun' : shade === 'dark' ? 'moon' : 'auto'} />{shade}
          </button>
          <button type="button" class="quiet" title="Times local or in UTC" aria-label={`Times: ${zone}`} onClick={() => timeZone.set(zone === 'utc' ? 'local' : 'utc')}>
            <Icon name="clock" />{zone === 'utc' ? 'UTC' : 'local'}
          </button>
          <button type="button" class="quiet" title="Keys of the keyboard" aria-label="Keyboard help" onClick={onHelp}>?</button>
          <button type="button" class="quiet" title="Sign out" aria-label="Sign out" onClick={() => void leave()}><Icon name="out" /></button>
        </div>
        {config?.version && <p class="faint version">Version {config.version}</p>}
      </div>
    </aside>
  );
}

function Help({ onClose }: { onClose(): void }): JSX.Element {
  const go: [string[], string][] = screens.filter((one) => one.nav?.key && allowed(one)).map((one) => [['g', one.nav?.key ?? ''], one.title]);
  const keys: [string[], string][] = [
    [['Ctrl K'], 'Search by id, or go to a screen'], [['/'], 'Filter the table, or search'], [['?'], 'This list'],
    [['j', 'k'], 'Next or previous row; the arrows do the same'], [['Enter'], 'Open the row'], [['x'], 'Select the row'],
    [['Home', 'End'], 'First or last row'], [['Esc'], 'Close, or clear'],
  ];
  return (
    <Dialog title="Keys of the keyboard" onClose={onClose}>
      <div class="keys">
        {[...keys, ...go].map(([names, what]) => (
          <p key={names.join(' ') + what}><span>{names.map((name) => <Key key={name}>{name}</Key>)}</span><span>{what}</span></p>
        ))}
      </div>
    </Dialog>
  );
}
