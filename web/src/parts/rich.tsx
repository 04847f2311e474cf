// SPDX-License-Identifier: Apache-2.0
// What a sandbox made, shown without trusting it: text as text, pictures as pictures, and HTML and SVG in a frame
// that has no scripts, no origin and no network.
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { fromBase64, outputText, unfinishedAt, visibleLines } from '../text';

const MAX_HTML = 4 * 1024 * 1024;
const CSP = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:";

// What loads, leads or looks elsewhere, and templates, whose content would become elements only in the frame.
const AWAY = 'link, base, meta, script, template, iframe, frame, frameset, object, embed, portal';

/**
 * Markup without what leads away. The frame's policy and sandbox are the locks; but a policy has no word on hints, which
 * look up names, and a click on a link opens a connection before the policy refuses it.
 */
export function harmless(content: string): string {
  const parsed = new DOMParser().parseFromString(content, 'text/html');  // inert: nothing runs or loads
  for (const each of parsed.querySelectorAll(AWAY)) each.remove();
  for (const each of parsed.querySelectorAll('*')) {
    const name = each.localName.toLowerCase();
    if (/^(?:set|animate)/.test(name) && /href$/i.test(each.getAttribute('attributeName') ?? '')) each.remove();
    else if (name === 'a' || name === 'area' || name === 'form') {
      for (const { name: attribute, value } of [...each.attributes]) {
        const link = attribute === 'href' || attribute.endsWith(':href');
        if ((link && !value.startsWith('#')) || attribute === 'ping' || attribute === 'action') each.removeAttribute(attribute);
      }
    }
  }
  const styles = [...parsed.head.querySelectorAll('style')].map((style) => style.outerHTML).join('');
  return styles + parsed.body.innerHTML;
}

/** The document of a frame. The first CSP counts, whatever the content says; `sandbox` is the second lock. */
export function frameDocument(content: string): string {
  return `<!doctype html><html><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${CSP}">`
    + '<meta http-equiv="x-dns-prefetch-control" content="off">'
    + '<meta name="referrer" content="no-referrer"><style>body{margin:8px;font:13px/1.45 system-ui,sans-serif;color:#1b1f27;background:#fff}'
    + 'table{border-collapse:collapse}td,th{padding:3px 8px;border-bottom:1px solid #d8dce4;text-align:right}svg{max-width:100%;height:auto}</style></head>'
    + `<body>${harmless(content)}</body></html>`;
}

export function RichFrame({ content, title }: { content: string; title: string }): JSX.Element {
  const [tall, setTall] = useState(false);
  const drawn = useMemo(() => (content.length > MAX_HTML ? '' : frameDocument(content)), [content]);
  if (content.length > MAX_HTML) return <p class="faint">A result of {content.length} characters is not drawn. Download the artifact instead.</p>;
  return (
    <figure class="rich">
      <iframe sandbox="" srcdoc={drawn} title={title} class={tall ? 'tall' : ''} referrerpolicy="no-referrer" loading="lazy" />
      <button type="button" class="button small" aria-expanded={tall} onClick={() => setTall(!tall)}>{tall ? 'Smaller' : 'Larger'}</button>
    </figure>
  );
}

const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

function Picture({ type, data, title }: { type: string; data: string; title: string }): JSX.Element {
  const [url, setUrl] = useState<string | null>(null);
  const [broken, setBroken] = useState(false);
  useEffect(() => {
    const raw = fromBase64(data.replace(/\s+/g, ''));
    if (!raw) {
      setBroken(true);
      return undefined;
    }
    const made = URL.createObjectURL(new Blob([raw.slice()], { type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [type, data]);
  if (broken) return <p class="faint">A picture that cannot be read.</p>;
  return <figure class="rich">{url && <img src={url} alt={title} onError={() => setBroken(true)} />}</figure>;
}

const asText = (value: unknown): string => (typeof value === 'string' ? value : Array.isArray(value) ? value.join('') : JSON.stringify(value, null, 2) ?? '');

/** One result of a cell: its best form that is safe to show. */
export function Result({ result, title }: { result: Record<string, unknown>; title: string }): JSX.Element {
  for (const type of PICTURES) {
    if (typeof result[type] === 'string') return <Picture type={type} data={result[type]} title={title} />;
  }
  if (result['image/svg+xml'] !== undefined) return <RichFrame content={asText(result['image/svg+xml'])} title={title} />;
  if (result['text/html'] !== undefined) return <RichFrame content={asText(result['text/html'])} title={title} />;
  for (const type of ['text/markdown', 'text/latex', 'text/plain', 'application/json']) {
    if (result[type] !== undefined) return <pre class="output plain">{outputText(asText(result[type])).slice(0, MAX_HTML)}</pre>;
  }
  return <pre class="output plain">{visibleLines(asText(result)).slice(0, 20_000)}</pre>;
}

export interface OutputChunk {
  stream: 'stdout' | 'stderr';
  text: string;
}

/** The texts to show: the end of a chunk that the next chunk of its stream goes on with is shown with that one. */
export function joined(chunks: OutputChunk[]): string[] {
  const after = { stdout: -1, stderr: -1 };
  const texts = chunks.map((chunk) => chunk.text);
  for (const [index, chunk] of chunks.entries()) {
    const before = after[chunk.stream];
    if (before >= 0) {
      const text = texts[before] ?? '';
      const end = unfinishedAt(text, before === index - 1);
      texts[before] = text.slice(0, end);
      texts[index] = text.slice(end) + chunk.text;
    }
    after[chunk.stream] = index;
  }
  return texts;
}

/** Output of a program, as text, with the errors in another colour. Stays at the end while it grows, if it was there. */
export function Output({ chunks, label, empty }: { chunks: OutputChunk[]; label: string; empty?: string }): JSX.Element {
  const element = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const texts = joined(chunks);
  useEffect(() => {
    const pre = element.current;
    if (pre && atEnd.current) pre.scrollTop = pre.scrollHeight;
  });
  return (
    <pre
      ref={element} class="output" tabIndex={0} role="region" aria-label={label}
      onScroll={(event) => {
        const pre = event.currentTarget;
        atEnd.current = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 8;
      }}
    >
      {chunks.length === 0 ? <span class="faint">{empty ?? 'No output.'}</span> : chunks.map((chunk, index) => <OutputPart key={index} stream={chunk.stream} text={texts[index] ?? ''} />)}
    </pre>
  );
}

function OutputPart({ stream, text }: { stream: OutputChunk['stream']; text: string }): JSX.Element {
  const shown = useMemo(() => outputText(text), [text]);
  return <span class={stream}>{shown}</span>;
}
