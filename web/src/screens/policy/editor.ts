// SPDX-License-Identifier: Apache-2.0
// The editor of policy documents: CodeMirror 6 in a shadow root, whose styles need no inline style element (CSP). The
// module is a chunk of its own, loaded by the policy screen alone.
import { autocompletion, closeBrackets, closeBracketsKeymap, type CompletionContext, completionKeymap, type CompletionResult } from '@codemirror/autocomplete';
import { history, historyKeymap, indentLess, indentMore, standardKeymap } from '@codemirror/commands';
import { HighlightStyle, indentUnit, StreamLanguage, syntaxHighlighting } from '@codemirror/language';
import { Compartment, EditorState } from '@codemirror/state';
import { EditorView, highlightActiveLine, hoverTooltip, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import schema from '../../../../policies/policy.schema.json';
import { problemMarks, showProblems } from './marks';
import { yamlTokens } from './yaml_tokens';
import { describeAt, propose, type SchemaObject } from './complete';

const ROOT = schema as unknown as SchemaObject;
export const MAX_DOCUMENT = 64 << 10;

export interface EditorProblem {
  /** From 1, or null for the whole document. */
  line: number | null;
  message: string;
  severity: 'error' | 'warning';
}

export interface PolicyEditor {
  text(): string;
  setText(text: string): void;
  setReadOnly(readOnly: boolean): void;
  show(problems: EditorProblem[]): void;
  focus(): void;
  destroy(): void;
}

export interface EditorOptions {
  label: string;
  text: string;
  readOnly: boolean;
  /** Proposals by the policy's schema; other YAML texts have none. */
  schema: boolean;
  onChange(text: string): void;
  /** A change that would exceed MAX_DOCUMENT is left out. */
  onTooLong(): void;
}

const THEME = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--panel)', fontSize: '13px', height: '100%' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-2px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--faint)', border: 'none' },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--accent) 7%, transparent)' },
  '.cm-line-error': { textDecoration: 'underline wavy var(--bad)', textUnderlineOffset: '3px' },
  '.cm-line-warning': { textDecoration: 'underline wavy var(--warn)', textUnderlineOffset: '3px' },
  '.cm-gutterElement.cm-at-error': { color: 'var(--bad)', fontWeight: '700', boxShadow: 'inset 3px 0 0 var(--bad)' },
  '.cm-gutterElement.cm-at-warning': { color: 'var(--warn)', fontWeight: '700', boxShadow: 'inset 3px 0 0 var(--warn)' },
  '.cm-activeLineGutter': { backgroundColor: 'transparent' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-tooltip': { backgroundColor: 'var(--panel)', color: 'var(--text)', border: '1px solid var(--rule)', borderRadius: '6px', maxWidth: '28rem' },
  '.cm-tooltip .cm-describe': { padding: '6px 10px' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--accent-ink)' },
  '.cm-completionDetail': { color: 'inherit', opacity: '0.75', fontStyle: 'normal' },
});

const HIGHLIGHT = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--accent)' },
  { tag: [tags.string, tags.content], color: 'var(--text)' },
  { tag: [tags.number, tags.bool, tags.keyword, tags.null], color: 'var(--good)' },
  { tag: tags.comment, color: 'var(--faint)', fontStyle: 'italic' },
]);

function complete(context: CompletionContext): CompletionResult | null {
  const found = propose(ROOT, context.state.doc.toString(), context.pos);
  if (!found || (!context.explicit && found.from === context.pos && !/[\s[{-]$/.test(context.state.sliceDoc(Math.max(0, context.pos - 1), context.pos)))) {
    return null;
  }
  const options = found.options.map((each) => ({
    label: each.label, apply: each.apply, detail: each.detail, info: each.info || undefined,
    type: each.apply.endsWith(': ') ? 'property' : 'enum', boost: each.required ? 1 : 0,
  }));
  return { from: found.from, options: options as CompletionResult['options'], validFor: /^[A-Za-z0-9_.-]*$/ };
}

const describing = hoverTooltip((view, position) => {
  const text = describeAt(ROOT, view.state.doc.toString(), position);
  if (!text) return null;
  const create = (): { dom: HTMLElement } => {
    const dom = document.createElement('div');
    dom.className = 'cm-describe';
    dom.textContent = text;
    return { dom };
  };
  return { pos: position, above: true, create };
});

export function mountEditor(parent: HTMLElement, options: EditorOptions): PolicyEditor {
  const root = parent.shadowRoot ?? parent.attachShadow({ mode: 'open' });
  const writable = new Compartment();
  // Escape leaves the editor by Tab: the keyboard is never trapped.
  let tabMoves = false;
  const tab = (run: (view: EditorView) => boolean) => (view: EditorView): boolean => !tabMoves && !view.state.readOnly && run(view);
  const view = new EditorView({
    root, parent: root,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        writable.of(EditorState.readOnly.of(options.readOnly)),
        EditorState.changeFilter.of((change) => {
          if (change.newDoc.length <= MAX_DOCUMENT) return true;
          options.onTooLong();
          return false;
        }),
        EditorView.contentAttributes.of({ 'aria-label': options.label, tabindex: '0' }),
        lineNumbers(), EditorView.lineWrapping, history(), highlightActiveLine(), closeBrackets(), problemMarks,
        indentUnit.of('  '), StreamLanguage.define(yamlTokens), syntaxHighlighting(HIGHLIGHT), THEME,
        options.schema ? [autocompletion({ override: [complete] }), describing] : [],
        keymap.of([
          { key: 'Escape', run: () => { tabMoves = true; return false; } },
          { key: 'Tab', run: tab(indentMore), shift: tab(indentLess) },
          ...closeBracketsKeymap, ...completionKeymap, ...standardKeymap, ...historyKeymap,
        ]),
        EditorView.domEventHandlers({ focus: () => { tabMoves = false; return false; } }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) options.onChange(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    setText: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    setReadOnly: (readOnly) => view.dispatch({ effects: writable.reconfigure(EditorState.readOnly.of(readOnly)) }),
    show: (problems) => view.dispatch({ effects: showProblems.of(problems) }),
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}
