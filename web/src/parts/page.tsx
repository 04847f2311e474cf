// SPDX-License-Identifier: Apache-2.0
// The frame of a screen: title, actions, tabs, panes.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { Link, setQuery, useRoute } from '../router';

export interface PageProps {
  title: string;
  /** Instead of the title as text, such as an id with its copy button. */
  heading?: ComponentChildren;
  /** A link to the list above. */
  up?: { to: string; label: string };
  status?: ComponentChildren;
  actions?: ComponentChildren;
  /** Below the title. */
  lead?: ComponentChildren;
  /** The content fills the window and scrolls itself, as a table does. */
  full?: boolean;
  children: ComponentChildren;
}

export function Page(props: PageProps): JSX.Element {
  useEffect(() => {
    document.title = `${props.title} · Cloister`;
  }, [props.title]);
  return (
    <div class={`page ${props.full ? 'full' : ''}`}>
      <header class="page-head">
        <div class="page-title">
          {props.up && <nav class="up" aria-label="Above"><Link to={props.up.to}>{props.up.label}</Link><span aria-hidden="true">/</span></nav>}
          <h1>{props.heading ?? props.title}</h1>
          {props.status}
        </div>
        {props.actions && <div class="page-actions">{props.actions}</div>}
      </header>
      {props.lead && <div class="page-lead">{props.lead}</div>}
      <div class="page-body">{props.children}</div>
    </div>
  );
}

export interface Tab {
  key: string;
  label: ComponentChildren;
}

/** Tabs that the query `?tab=` keeps. → use `useTab` for the chosen one. */
export function Tabs({ tabs, label, current }: { tabs: Tab[]; label: string; current: string }): JSX.Element {
  const step = (event: KeyboardEvent): void => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const index = tabs.findIndex((tab) => tab.key === current);
    const next = tabs[(index + by + tabs.length) % tabs.length];
    if (!next) return;
    setQuery({ tab: next.key });
    const buttons = event.currentTarget instanceof Element ? event.currentTarget.querySelectorAll<HTMLElement>('[role=tab]') : [];
    buttons[(index + by + tabs.length) % tabs.length]?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={step}>
      {tabs.map((tab) => (
        <button
          key={tab.key} id={`tab-${tab.key}`} type="button" role="tab" aria-selected={tab.key === current} tabIndex={tab.key === current ? 0 : -1}
          aria-controls={tab.key === current ? `panel-${tab.key}` : undefined} onClick={() => tab.key !== current && setQuery({ tab: tab.key }, true)}
        >
          {tab.label}
        </button>
      ))}
    </div>
  );
}

export function useTab(tabs: readonly string[]): string {
  const wanted = useRoute().query.get('tab') ?? '';
  return tabs.includes(wanted) ? wanted : (tabs[0] ?? '');
}

export const TabPanel = ({ tab, children }: { tab: string; children: ComponentChildren }): JSX.Element =>
  <div class="tab-panel" role="tabpanel" id={`panel-${tab}`} aria-labelledby={`tab-${tab}`}>{children}</div>;

export const Card = ({ title, actions, children, class: name }: {
  title?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren; class?: string;
}): JSX.Element => (
  <section class={`card ${name ?? ''}`}>
    {(title || actions) && <header class="card-head"><h2>{title}</h2>{actions && <div class="card-actions">{actions}</div>}</header>}
    <div class="card-body">{children}</div>
  </section>
);
