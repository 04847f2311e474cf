// SPDX-License-Identifier: Apache-2.0
// Dialogs: the browser's own <dialog>, so that focus stays inside, Escape closes, and focus returns.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { sayError } from '../api';
import { useId } from '../hooks';
import { Button, Icon } from './basics';
import { Form, Input } from './forms';

export interface DialogProps {
  title: string;
  onClose(): void;
  children: ComponentChildren;
  /** Buttons at the end. */
  actions?: ComponentChildren;
  wide?: boolean;
  /** Neither Escape nor the ground beside the dialog closes it: `actions` have the only way out. */
  stays?: boolean;
}

/** Closes by a click beside the dialog: not by a drag from inside to outside, as when text is selected. */
export function useBackdrop(close: () => void): { onPointerDown(event: PointerEvent): void; onClick(event: MouseEvent): void } {
  const down = useRef(false);
  return {
    onPointerDown: (event) => {
      down.current = event.target === event.currentTarget;
    },
    onClick: (event) => {
      if (down.current && event.target === event.currentTarget) close();
      down.current = false;
    },
  };
}

/** Open as long as it is drawn. */
export function Dialog({ title, onClose, children, actions, wide, stays }: DialogProps): JSX.Element {
  const backdrop = useBackdrop(() => {
    if (!stays) onClose();
  });
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    if (!dialog) return undefined;
    dialog.showModal();
    (dialog.querySelector<HTMLElement>('[data-autofocus]') ?? dialog.querySelector<HTMLElement>('input, textarea, select'))?.focus();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element} class={`dialog ${wide ? 'wide' : ''}`} aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        if (!stays) onClose();
      }}
      onKeyDown={(event) => {
        // A browser closes the dialog at a second Escape, whatever `cancel` said of the first.
        if (stays && event.key === 'Escape') event.preventDefault();
      }}
      {...backdrop}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2 id={id}>{title}</h2>
          {!stays && <button type="button" class="quiet icon-button" aria-label="Close" onClick={onClose}><Icon name="close" /></button>}
        </header>
        <div class="dialog-content">{children}</div>
        {actions && <footer class="dialog-actions">{actions}</footer>}
      </div>
    </dialog>
  );
}

export interface ConfirmProps {
  title: string;
  children: ComponentChildren;
  /** The word on the button, such as "Revoke". */
  action: string;
  /** A rejected promise is shown, and the dialog stays. */
  onConfirm(): unknown;
  onClose(): void;
  danger?: boolean;
}

interface AskingProps extends ConfirmProps {
  typed?: string;
}

function Asking(props: AskingProps): JSX.Element {
  const [text, setText] = useState('');
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const ready = props.typed === undefined || text === props.typed;
  const confirm = async (): Promise<void> => {
    if (!ready || busy) return;
    setBusy(true);
    try {
      await props.onConfirm();
      props.onClose();
    } catch (failed) {
      setError(sayError(failed));
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <Form onSubmit={() => void confirm()}>
        {props.children}
        {props.typed !== undefined && (
          <Input label={`Type ${props.typed} to confirm`} value={text} onInput={setText} mono autoFocus />
        )}
        {error && <p class="field-error" role="alert">{error}</p>}
        <div class="dialog-actions">
          <Button onClick={props.onClose} autoFocus={props.typed === undefined}>Cancel</Button>
          <Button type="submit" kind={props.danger ?? true ? 'danger' : 'primary'} disabled={!ready || busy}>{props.action}</Button>
        </div>
      </Form>
    </Dialog>
  );
}

/** Asks before an action. */
export const Confirm = (props: ConfirmProps): JSX.Element => <Asking {...props} />;

/** Asks to type a name before an action that nobody can take back. */
export const ConfirmTyped = (props: ConfirmProps & { typed: string }): JSX.Element => <Asking {...props} />;
