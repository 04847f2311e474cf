// SPDX-License-Identifier: Apache-2.0
// What ran: the program of a request, with what it was given.
import type { JSX } from 'preact';
import { Card, Facts, Untrusted } from '../../parts';
import { visibleLines } from '../../text';
import { codeOf, type KeptRequest, said } from './requests';

const MAX_SHOWN = 256 * 1024;
const APART = new Set(['code', 'command', 'language', 'input', 'encoding']);

const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** A file's content may be long, and the name says enough here. */
const shown = (member: string, value: unknown): string =>
  (member === 'files' && Array.isArray(value) ? value.map((one: { path?: unknown }) => String(one.path)).join(', ') : asText(value));

function Lines({ text }: { text: string }): JSX.Element {
  return <pre class="code" tabIndex={0}>{visibleLines(text.slice(0, MAX_SHOWN))}{text.length > MAX_SHOWN ? '…' : ''}</pre>;
}

export function Program({ kept }: { kept: KeptRequest }): JSX.Element {
  const { request, withheld } = kept;
  const { language, code } = codeOf(request);
  const others = Object.entries(request).filter(([member, value]) => !APART.has(member) && said(value));
  return (
    <div class="stack">
      <Card title={request['code'] === undefined || request['code'] === null ? 'Command' : `Program, ${language}`}><Lines text={code} /></Card>
      {said(request['input']) && <Card title={request['encoding'] === 'base64' ? 'Input, in base64' : 'Input'}><Lines text={asText(request['input'])} /></Card>}
      {others.length > 0 && (
        <Card title="Request">
          <Facts rows={others.map(([member, value]): [string, JSX.Element] => [
            member, withheld.includes(member) ? <span key={member} class="soft">The values are another person’s.</span> : <Untrusted key={member} value={shown(member, value)} mono cut={2000} />,
          ])} />
        </Card>
      )}
    </div>
  );
}
