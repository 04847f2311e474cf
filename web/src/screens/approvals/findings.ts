// SPDX-License-Identifier: Apache-2.0
// What the command filter finds in the program of a request, or why it found nothing out.
import { useEffect, useState } from 'preact/hooks';
import { isAbort, post, sayError } from '../../api';
import { may } from '../../session';

export interface RiskFactor {
  kind: string;
  what: string;
  outcome: 'allow' | 'escalate' | 'deny';
  rule: string | null;
  why: string | null;
  words: string;
  begin: number;
  end: number;
  mitigation: string;
}

export interface Findings {
  factors: RiskFactor[];
  /** Why the program was not looked at, in a sentence; null if it was, or while the answer is under way. */
  missing: string | null;
}

export interface Program {
  member: string;
  text: string;
  shell: boolean;
  argv: string[] | null;
}

const MAX_EXPLAINED = 64 * 1024;  // of POST /v1/commands:explain
const NOTHING: Findings = { factors: [], missing: null };

/** The member of the request that is the program, as text. */
export function programOf(request: Record<string, unknown>): Program | null {
  const { code, command, language } = request;
  if (typeof code === 'string') return { member: 'code', text: code, shell: language === 'bash' || language === 'sh', argv: null };
  if (typeof command === 'string') return { member: 'command', text: command, shell: true, argv: null };
  if (Array.isArray(command)) {
    const argv = command.map(String);
    return { member: 'command', text: argv.join(' '), shell: true, argv };
  }
  return null;
}

/** Why the command filter cannot look at this program, or null. */
export function notExplained(program: Program, mayAsk: boolean): string | null {
  if (!program.shell) return 'The command filter reads programs of a shell alone, and has not looked at this one.';
  if (new TextEncoder().encode(program.text).length > MAX_EXPLAINED) return 'The program is longer than 64 KiB: the command filter has not looked at it.';
  return mayAsk ? null : 'Your roles do not ask the command filter: it has not looked at this program.';
}

export function useFindings(request: Record<string, unknown> | null): Findings {
  const [findings, setFindings] = useState<Findings>(NOTHING);
  const program = request ? programOf(request) : null;
  useEffect(() => {
    setFindings(NOTHING);
    if (!program) return undefined;
    const missing = notExplained(program, may('service.read'));
    if (missing !== null) {
      setFindings({ factors: [], missing });
      return undefined;
    }
    const abort = new AbortController();
    const question = program.argv ? { argv: program.argv } : { command: program.text };
    post<{ risk_factors: RiskFactor[] }>('/v1/commands:explain', question, { signal: abort.signal }).then(
      (verdict) => setFindings({ factors: verdict.risk_factors, missing: null }),
      (error: unknown) => {
        if (!isAbort(error)) setFindings({ factors: [], missing: `The findings of the command filter could not be computed. ${sayError(error)}` });
      });
    return () => abort.abort();
  }, [program?.text, program?.shell]);
  return findings;
}
