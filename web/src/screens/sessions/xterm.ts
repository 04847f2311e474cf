// SPDX-License-Identifier: Apache-2.0
// xterm.js over the WebSocket of an execution. The output is hostile: no links, no clipboard, no title.
import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';
import { path, request, wsUrl } from '../../api';
import { bytes, fromBase64 } from '../../text';
import { ENDED, type Execution } from '../../types';
import { cleanPaste, inputPieces, MAX_PASTE, Replay } from './typing';

export interface TerminalHandle {
  close(): void;
  speak(on: boolean): void;
}

export interface TerminalEvents {
  onState(state: 'connecting' | 'open' | 'lost' | 'ended', text?: string): void;
  /** Shift Esc: the focus leaves. */
  onLeave(): void;
  /** Nothing of a paste was sent, for this reason. */
  onRefused(reason: string): void;
}

interface Message {
  type: string;
  id?: string;
  data?: string;
  offset?: number;
  status?: string;
  execution?: Execution;
}

// Three heartbeats of the service.
const SILENCE_MS = 45_000;
const DARK = { background: '#111318', foreground: '#e4e7ed', cursor: '#e4e7ed', selectionBackground: '#3a4a78' };

export function openTerminal(host: HTMLElement, program: string, events: TerminalEvents): TerminalHandle {
  const terminal = new Terminal({
    theme: DARK, fontSize: 13, fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace', scrollback: 5000, cursorBlink: false,
    linkHandler: { activate: () => undefined, allowNonHttpProtocols: false },
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(host);
  terminal.textarea?.setAttribute('aria-label', 'Terminal. Shift Escape leaves it.');
  let socket: WebSocket | null = null;
  let last = '';
  let closed = false;
  let ended = false;
  let failures = 0;
  let timer = 0;
  let watch = 0;
  let heard = 0;
  let opened = false;
  const replay = new Replay();
  const connected = (): boolean => socket?.readyState === WebSocket.OPEN;
  const send = (message: object): void => {
    if (connected()) socket?.send(JSON.stringify(message));
  };
  const resize = (): void => {
    if (host.clientWidth < 20 || host.clientHeight < 20) return;
    fit.fit();
    send({ type: 'resize', cols: Math.max(2, terminal.cols), rows: Math.max(2, terminal.rows) });
  };
  const observer = new ResizeObserver(resize);
  observer.observe(host);
  const input = (text: string): void => {
    for (const data of inputPieces(text)) send({ type: 'input', data });
  };
  terminal.onData((text) => {
    if (replay.sends) input(text);
  });
  terminal.onBinary((text) => {
    if (replay.sends) send({ type: 'input', data: btoa(text), encoding: 'base64' });
  });
  const paste = (event: ClipboardEvent): void => {
    event.preventDefault();
    event.stopPropagation();
    const text = event.clipboardData?.getData('text/plain') ?? '';
    if (terminal.options.disableStdin) events.onRefused('The terminal is not connected, so nothing was pasted.');
    else if (text.length > MAX_PASTE) events.onRefused(`It is larger than ${bytes(MAX_PASTE)}, so it was not pasted. Upload it as a file instead.`);
    else terminal.paste(cleanPaste(text));
  };
  host.addEventListener('paste', paste, true);
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key !== 'Escape' || !event.shiftKey) return true;
    if (event.type === 'keydown') {
      event.preventDefault();
      events.onLeave();
    }
    return false;
  });
  const take = (message: Message): void => {
    if (message.id) last = message.id;
    failures = 0;
    if (message.type === 'stdout' || message.type === 'stderr') {
      const raw = fromBase64(message.data ?? '');
      if (raw) terminal.write(raw, replay.writes(message.offset ?? 0));
    } else if (message.type === 'status' && message.status && ENDED.has(message.status)) {
      ended = true;
      clearTimeout(watch);
      const execution = message.execution;
      events.onState('ended', execution?.error?.message ?? `The shell has ended${execution?.exit_code !== null && execution?.exit_code !== undefined ? `, exit ${execution.exit_code}` : ''}.`);
      terminal.options.disableStdin = true;
    }
  };
  /** How much output there is now, and whether it is all. Null: the service does not say. */
  const output = async (): Promise<{ bytes: number; complete: boolean } | null> => {
    try {
      const { headers } = await request('HEAD', path`/v1/executions/${program}/logs`, { query: { stream: 'stdout' }, headers: { Accept: '*/*' } });
      return { bytes: Number(headers.get('X-Cloister-Total-Bytes')), complete: headers.get('X-Cloister-Complete') === 'true' };
    } catch {
      return null;
    }
  };
  const lost = async (made: WebSocket): Promise<void> => {
    if (closed || ended || socket !== made) return;
    socket = null;
    made.close();
    clearTimeout(watch);
    failures += 1;
    terminal.options.disableStdin = true;
    timer = window.setTimeout(connect, Math.min(15_000, 500 * 2 ** failures));
    events.onState('lost', 'The connection is lost, trying again.');
    if (failures <= 3) return;
    const found = await output();
    if (closed || ended || connected()) return;
    events.onState('lost', !found ? 'The connection does not come back. The shell may have ended with its session.'
      : opened || found.complete ? 'The connection does not come back. Look at the execution for what became of the shell.'
        : 'The shell runs, but the terminal cannot connect: a proxy between the browser and the service does not pass WebSockets (Upgrade).');
  };
  const listen = (made: WebSocket): void => {
    heard = Date.now();
    clearTimeout(watch);
    watch = window.setTimeout(() => void lost(made), SILENCE_MS);
  };
  const connect = (): void => {
    clearTimeout(timer);
    events.onState('connecting');
    replay.connected();
    const made = new WebSocket(wsUrl(`/v1/executions/${program}/events`, { last_event_id: last }));
    socket = made;
    listen(made);
    made.onopen = async () => {
      const found = await output();
      if (socket !== made || closed || ended) return;
      if (!found) return void lost(made);
      replay.caughtUpAt(found.bytes);
      terminal.options.disableStdin = false;
      events.onState('open');
      resize();
      if (!opened) terminal.focus();
      opened = true;
    };
    made.onmessage = ({ data }) => {
      if (typeof data !== 'string' || socket !== made) return;
      listen(made);
      try {
        take(JSON.parse(data) as Message);
      } catch {
        void lost(made);
      }
    };
    made.onclose = () => void lost(made);
  };
  // A computer that slept, or changed its network, has timers and sockets that do not know.
  const wake = (): void => {
    if (closed || ended || document.hidden) return;
    if (!socket) connect();
    else if (Date.now() - heard > SILENCE_MS) void lost(socket);
  };
  addEventListener('online', wake);
  document.addEventListener('visibilitychange', wake);
  terminal.options.disableStdin = true;
  connect();
  return {
    close() {
      closed = true;
      clearTimeout(timer);
      clearTimeout(watch);
      removeEventListener('online', wake);
      document.removeEventListener('visibilitychange', wake);
      host.removeEventListener('paste', paste, true);
      observer.disconnect();
      socket?.close();
      terminal.dispose();
    },
    speak(on) {
      terminal.options.screenReaderMode = on;
      terminal.focus();
    },
  };
}
