// SPDX-License-Identifier: Apache-2.0
// The place of the CodeMirror editor, which arrives as a chunk of its own; until then the text is shown as it is.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { EditorProblem, PolicyEditor } from './editor';

export interface EditorPaneProps {
  label: string;
  /** The text at first; a new `revision` replaces what was typed. */
  text: string;
  revision: number;
  readOnly?: boolean;
  schema?: boolean;
  problems?: EditorProblem[];
  onChange?: (text: string) => void;
}

export function EditorPane(props: EditorPaneProps) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<PolicyEditor | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [tooLong, setTooLong] = useState(false);
  const [state, setState] = useState<'loading' | 'ready' | 'failed'>('loading');
  useEffect(() => {
    let gone = false;
    void import('./editor').then(({ mountEditor }) => {
      if (gone || !host.current) return;
      const { label, text, readOnly, schema, problems } = latest.current;
      editor.current = mountEditor(host.current, {
        label, text, readOnly: readOnly ?? false, schema: schema ?? false,
        onChange: (typed) => {
          setTooLong(false);
          latest.current.onChange?.(typed);
        },
        onTooLong: () => setTooLong(true),
      });
      editor.current.show(problems ?? []);
      setState('ready');
    }, () => setState('failed'));
    return () => {
      gone = true;
      editor.current?.destroy();
      editor.current = null;
    };
  }, []);
  useEffect(() => editor.current?.setText(latest.current.text), [props.revision]);
  useEffect(() => editor.current?.setReadOnly(props.readOnly ?? false), [props.readOnly]);
  useEffect(() => editor.current?.show(props.problems ?? []), [props.problems]);
  return (
    <div class="editor-pane">
      <div class={state === 'ready' ? 'editor-host' : 'editor-host waiting'} ref={host} />
      {tooLong && <p class="bad" role="alert">The text would be longer than 64 KiB, so the last change was left out.</p>}
      {state === 'loading' && <pre class="editor-plain">{props.text}</pre>}
      {state === 'failed' && (
        <textarea
          class="editor-plain" aria-label={props.label} readOnly={props.readOnly} value={props.text} spellcheck={false}
          onInput={(event) => props.onChange?.(event.currentTarget.value)}
        />
      )}
    </div>
  );
}
