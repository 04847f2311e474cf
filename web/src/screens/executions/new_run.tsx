// SPDX-License-Identifier: Apache-2.0
// A run started from the page.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { labelled, post } from '../../api';
import { useDraft } from '../../drafts';
import { useApi } from '../../hooks';
import { Button, Dialog, ErrorState, fieldError, Form, Input, Select, TextArea } from '../../parts';
import { navigate } from '../../router';
import type { Execution } from '../../types';
import { codeOf, type RunRequest, said } from './requests';

interface Language {
  name: string;
  available?: boolean;
  state?: string;
}

const NETWORKS = ['none', 'restricted', 'internal', 'api', 'full'] as const;

const LABELS = {
  code: 'Code', command: 'Code', language: 'Language', network_policy: 'Network', timeout_seconds: 'Timeout, in seconds', memory_mb: 'Memory, in MiB', deps: 'Packages',
} as const;

/** Members of a request that the form has. The others stay as they are. */
const IN_FORM = new Set(Object.keys(LABELS));

export function NewRun({ onClose, first }: { onClose(): void; first?: RunRequest }): JSX.Element {
  const languages = useApi<{ languages: Language[] }>('/v1/languages');
  const program = codeOf(first ?? {});
  const [language, setLanguage] = useDraft('run language', program.language);
  const [code, setCode] = useDraft('run code', program.code);
  const [timeout, setTimeout] = useDraft('run timeout', String(first?.['timeout_seconds'] ?? 30));
  const [memory, setMemory] = useDraft('run memory', String(first?.['memory_mb'] ?? 256));
  const policy = first?.['network_policy'] as { tier?: (typeof NETWORKS)[number] } | null | undefined;
  const [network, setNetwork] = useDraft<(typeof NETWORKS)[number]>('run network', policy?.tier ?? 'none');
  const [deps, setDeps] = useDraft('run packages', Array.isArray(first?.['deps']) ? first['deps'].join(' ') : '');
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const names = languages.data?.languages.map((one) => one.name) ?? ['python', 'bash', 'node'];
  const send = async (): Promise<void> => {
    if (busy) return;
    setBusy(true);
    setError(null);
    const packages = deps.split(/[\s,]+/).filter(Boolean);
    const request: RunRequest = {
      ...kept, language, code, timeout_seconds: Number(timeout), memory_mb: Number(memory),
      ...(network === 'none' ? {} : { network_policy: network === policy?.tier ? policy : { tier: network } }), ...(packages.length ? { deps: packages } : {}),
    };
    try {
      const made = await post<Execution>('/v1/executions', request);
      onClose();
      navigate(`executions/${made.id}`);
    } catch (failed) {
      setError(labelled(failed, LABELS));
      setBusy(false);
    }
  };
  const kept = Object.fromEntries(Object.entries(first ?? {}).filter(([member]) => !IN_FORM.has(member)));
  const others = Object.entries(kept).filter(([member, value]) => said(value) && member !== 'encoding').map(([member]) => member);
  const elsewhere = error && !Object.keys(LABELS).some((name) => fieldError(error, name));
  return (
    <Dialog title={first ? 'Change and run' : 'New run'} wide onClose={onClose}>
      <Form onSubmit={() => void send()}>
        <TextArea label={LABELS.code} mono rows={10} value={code} onInput={setCode} autoFocus error={fieldError(error, 'code') ?? fieldError(error, 'command')} placeholder={'print("hello")'} />
        <div class="columns">
          <Select label={LABELS.language} value={language} options={names.includes(language) ? names : [language, ...names]} onChange={setLanguage} error={fieldError(error, 'language')} />
          <Select label={LABELS.network_policy} value={network} options={NETWORKS} onChange={(value) => setNetwork(value)} error={fieldError(error, 'network_policy')} />
          <Input label={LABELS.timeout_seconds} type="number" min={1} value={timeout} onInput={setTimeout} error={fieldError(error, 'timeout_seconds')} />
          <Input label={LABELS.memory_mb} type="number" min={4} value={memory} onInput={setMemory} error={fieldError(error, 'memory_mb')} />
        </div>
        <Input label={LABELS.deps} value={deps} onInput={setDeps} mono placeholder="numpy==2.1.0 requests" hint="Names separated by spaces." error={fieldError(error, 'deps')} />
        {others.length > 0 && <p class="hint">The rest of the request stays: {others.join(', ')}.</p>}
        {elsewhere ? <ErrorState error={error} /> : null}
        <div class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" disabled={busy || code.trim() === ''}>Run</Button>
        </div>
      </Form>
    </Dialog>
  );
}
