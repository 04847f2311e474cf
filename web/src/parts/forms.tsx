// SPDX-License-Identifier: Apache-2.0
// Fields of forms: a label, a hint, and an error beside the field that is wrong.
import type { ComponentChildren, JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { ApiError } from '../api';
import { useId } from '../hooks';

export interface FieldProps {
  label: string;
  hint?: ComponentChildren;
  error?: string | null;
  /** Draws the control with these attributes. */
  children: (attributes: { id: string; 'aria-describedby': string | undefined; 'aria-invalid': 'true' | undefined }) => ComponentChildren;
}

export function Field({ label, hint, error, children }: FieldProps): JSX.Element {
  const id = useId();
  const described = [hint ? `${id}-hint` : '', error ? `${id}-error` : ''].filter(Boolean).join(' ');
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, 'aria-describedby': described || undefined, 'aria-invalid': error ? 'true' : undefined })}
      {hint && <p class="hint" id={`${id}-hint`}>{hint}</p>}
      {error && <p class="field-error" id={`${id}-error`} role="alert">{error}</p>}
    </div>
  );
}

interface Common {
  label: string;
  hint?: ComponentChildren;
  error?: string | null;
  disabled?: boolean;
  autoFocus?: boolean;
}

export interface InputProps extends Common {
  value: string;
  onInput(value: string): void;
  type?: 'text' | 'password' | 'number' | 'search' | 'url' | 'datetime-local';
  placeholder?: string;
  mono?: boolean;
  required?: boolean;
  min?: number;
  max?: number;
  step?: number | 'any';
  maxLength?: number;
  list?: string;
  name?: string;
}

export const Input = (props: InputProps): JSX.Element => (
  <Field label={props.label} hint={props.hint} error={props.error ?? null}>
    {(attributes) => (
      <input
        {...attributes} class={props.mono ? 'mono' : ''} type={props.type ?? 'text'} value={props.value} placeholder={props.placeholder}
        required={props.required} disabled={props.disabled} min={props.min} max={props.max} step={props.step} maxLength={props.maxLength}
        list={props.list} name={props.name} data-autofocus={props.autoFocus ? '' : undefined}
        autocomplete="off" autocapitalize="off" spellcheck={false} onInput={(event) => props.onInput(event.currentTarget.value)}
      />
    )}
  </Field>
);

export interface TextAreaProps extends Common {
  value: string;
  onInput(value: string): void;
  rows?: number;
  mono?: boolean;
  placeholder?: string;
  maxLength?: number;
  required?: boolean;
}

export const TextArea = (props: TextAreaProps): JSX.Element => (
  <Field label={props.label} hint={props.hint} error={props.error ?? null}>
    {(attributes) => (
      <textarea
        {...attributes} class={props.mono ? 'mono' : ''} rows={props.rows ?? 4} value={props.value} placeholder={props.placeholder}
        disabled={props.disabled} maxLength={props.maxLength} required={props.required} spellcheck={false} data-autofocus={props.autoFocus ? '' : undefined}
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
    )}
  </Field>
);

export interface SelectProps<T extends string> extends Common {
  value: T;
  options: readonly (T | { value: T; label: string })[];
  onChange(value: T): void;
}

export function Select<T extends string>(props: SelectProps<T>): JSX.Element {
  return (
    <Field label={props.label} hint={props.hint} error={props.error ?? null}>
      {(attributes) => (
        <select {...attributes} disabled={props.disabled} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value as T)}>
          {props.options.map((option) => {
            const { value, label } = typeof option === 'string' ? { value: option, label: option } : option;
            return <option key={value} value={value}>{label}</option>;
          })}
        </select>
      )}
    </Field>
  );
}

export function Check({ label, checked, onChange, hint, disabled }: {
  label: ComponentChildren; checked: boolean; onChange(checked: boolean): void; hint?: ComponentChildren; disabled?: boolean;
}): JSX.Element {
  const id = useId();
  return (
    <div class="check">
      <input id={id} type="checkbox" checked={checked} disabled={disabled} aria-describedby={hint ? `${id}-hint` : undefined} onChange={(event) => onChange(event.currentTarget.checked)} />
      <label for={id}>{label}</label>
      {hint && <p class="hint" id={`${id}-hint`}>{hint}</p>}
    </div>
  );
}

/** A form that is sent with Enter. While a promise of onSubmit runs, the form is not sent again. */
export function Form({ onSubmit, children, label }: { onSubmit(): unknown; children: ComponentChildren; label?: string }): JSX.Element {
  const busy = useRef(false);
  const send = (): void => {
    if (busy.current) return;
    const result = onSubmit();
    if (!(result instanceof Promise)) return;
    busy.current = true;
    void result.finally(() => (busy.current = false));
  };
  return (
    <form
      class="form" aria-label={label} noValidate
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {children}
    </form>
  );
}

/** What an error says about this member of the request, or null. */
export function fieldError(error: unknown, name: string): string | null {
  if (!(error instanceof ApiError) || !error.field) return null;
  return error.field === name || error.field.startsWith(`${name}.`) || error.field.startsWith(`${name}[`) ? error.message : null;
}
