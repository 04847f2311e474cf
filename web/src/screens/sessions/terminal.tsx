// SPDX-License-Identifier: Apache-2.0
// A terminal in the session. The program belongs to the session: it stays when this page is left, and the page joins
// it again when it comes back.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, del, path, post } from '../../api';
import { attempt, Button, ErrorState, Loading, Status, toast } from '../../parts';
import { Link } from '../../router';
import { may, personalMap } from '../../session';
import type { Execution, Session } from '../../types';
import type { TerminalHandle } from './xterm';

/** The program of each session's terminal, as long as this page stays. */
const programs = personalMap<string, string>();

export function TerminalTab({ session }: { session: Session }): JSX.Element {
  const [program, setProgram] = useState<string | null>(programs.get(session.id) ?? null);
  const [error, setError] = useState<unknown>(null);
  const start = async (): Promise<void> => {
    setError(null);
    try {
      const made = await post<Execution>(path`/v1/sessions/${session.id}/exec`, {
        command: ['/bin/bash'], env: { TERM: 'xterm-256color' }, tty: { cols: 100, rows: 30 }, artifacts: [],
      });
      if (programs.size >= 100) programs.clear();
      programs.set(session.id, made.id);
      setProgram(made.id);
    } catch (failed) {
      setError(failed);
    }
  };
  const leave = (): void => {
    programs.delete(session.id);
    setProgram(null);
  };
  if (!program) {
    return (
      <div class="stack">
        {error ? <ErrorState error={error} /> : null}
        <div class="state">
          <p class="state-title">A shell in the session</p>
          <p class="state-text">It sees the session’s files and runs under its limits. What is written there is recorded as an execution.</p>
          <Button kind="primary" onClick={start} autoFocus>Open a terminal</Button>
        </div>
      </div>
    );
  }
  return <Screen key={program} program={program} onLeave={leave} />;
}

function Screen({ program, onLeave }: { program: string; onLeave(): void }): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const leave = useRef<HTMLDivElement>(null);
  const handle = useRef<TerminalHandle | null>(null);
  const [state, setState] = useState<'loading' | 'connecting' | 'open' | 'lost' | 'ended'>('loading');
  const [note, setNote] = useState('');
  const [error, setError] = useState<unknown>(null);
  const [spoken, setSpoken] = useState(false);
  useEffect(() => {
    let gone = false;
    import('./xterm').then(({ openTerminal }) => {
      if (gone || !host.current) return;
      handle.current = openTerminal(host.current, program, {
        onState: (next, text) => {
          setState(next);
          setNote(text ?? '');
        },
        onLeave: () => leave.current?.querySelector('button')?.focus(),
        onRefused: (reason) => toast(reason, 'bad'),
      });
    }, () => setError(new ApiError(0, 'The terminal could not be loaded.', '')));
    return () => {
      gone = true;
      handle.current?.close();
    };
  }, [program]);
  const end = async (): Promise<void> => {
    await attempt(() => del(path`/v1/executions/${program}`));
  };
  return (
    <div class="terminal-pane">
      <div class="row" ref={leave}>
        <Status value={state === 'open' ? 'connected' : state} tone={state === 'open' ? 'good' : state === 'ended' ? 'plain' : 'warn'} />
        <span class="soft" role="status">{note}</span>
        <span class="grow" />
        <Link to={`executions/${program}`}>Execution</Link>
        <Button small pressed={spoken} title="Lets a screen reader read the terminal" onClick={() => { handle.current?.speak(!spoken); setSpoken(!spoken); }}>Screen reader</Button>
        {state === 'ended'
          ? <Button small kind="primary" onClick={onLeave}>New terminal</Button>
          : may('execution.stop') && <Button small kind="danger" onClick={end}>End</Button>}
      </div>
      {error ? <ErrorState error={error} /> : state === 'loading' ? <Loading what="the terminal" /> : null}
      <div ref={host} class="terminal" />
      <p class="hint">Shift Esc leaves the terminal for the buttons above. The shell stays when you leave this page, until the session ends.</p>
    </div>
  );
}
