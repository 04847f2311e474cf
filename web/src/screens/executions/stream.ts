// SPDX-License-Identifier: Apache-2.0
// An execution as it goes on: its output, its use of the machine, its artifacts and its end.
import { useEffect, useRef, useState } from 'preact/hooks';
import { type ApiError, type Connect, follow, get, isAbort, path } from '../../api';
import type { OutputChunk } from '../../parts';
import { fromBase64 } from '../../text';
import { type ArtifactRef, ENDED, type Execution, type Usage } from '../../types';

const MAX_TEXT = 1024 * 1024;
const CHUNK = 16 * 1024;
const MAX_CHUNKS = 1000;
const MAX_POINTS = 2000;

export interface UsagePoint {
  usage: Usage;
}

export interface Following {
  execution: Execution | null;
  chunks: OutputChunk[];
  /** Characters that are not shown any more, at the beginning. */
  dropped: number;
  /** Bytes of each stream so far. The record has them after the end. */
  arrived: { stdout: number; stderr: number };
  points: Usage[];
  artifacts: ArtifactRef[];
  error: unknown;
  /** Whether the stream is connected. */
  state: 'connecting' | 'open' | 'waiting' | 'ended';
  reload(): void;
}

export interface Kept {
  chunks: OutputChunk[];
  /** Characters in the chunks. */
  size: number;
  dropped: number;
}

/** Appends pieces to the chunks, which stay few, and forgets the beginning beyond the bound. */
export function append(old: Kept, pieces: readonly OutputChunk[]): Kept {
  let chunks = [...old.chunks];
  let { size, dropped } = old;
  for (const { stream, text } of pieces) {
    const last = chunks.at(-1);
    if (last && last.stream === stream && last.text.length + text.length <= CHUNK) chunks[chunks.length - 1] = { stream, text: last.text + text };
    else chunks.push({ stream, text });
    size += text.length;
    if (chunks.length > MAX_CHUNKS) chunks = fewer(chunks);
  }
  let first = 0;
  while (size > MAX_TEXT && first < chunks.length - 1) {
    const length = chunks[first]?.text.length ?? 0;
    size -= length;
    dropped += length;
    first += 1;
  }
  return { chunks: first > 0 ? chunks.slice(first) : chunks, size, dropped };
}

/** Output that went to and fro between the streams: the older half keeps its order, and loses its colours. */
function fewer(chunks: OutputChunk[]): OutputChunk[] {
  const half = chunks.length >> 1;
  const joined: OutputChunk[] = [];
  for (const { text } of chunks.slice(0, half)) {
    const last = joined.at(-1);
    if (last && last.text.length + text.length <= CHUNK) last.text += text;
    else joined.push({ stream: 'stdout', text });
  }
  return [...joined, ...chunks.slice(half)];
}

const NOTHING = { chunks: [], size: 0, dropped: 0, arrived: { stdout: 0, stderr: 0 } };

/** `over`: how the events come, if not as a request does; then a hidden page follows, too. */
export function useFollowing(id: string, over?: Connect): Following {
  const [execution, setExecution] = useState<Execution | null>(null);
  const [output, setOutput] = useState<Kept & Pick<Following, 'arrived'>>(NOTHING);
  const [points, setPoints] = useState<Usage[]>([]);
  const [artifacts, setArtifacts] = useState<ArtifactRef[]>([]);
  const [error, setError] = useState<unknown>(null);
  const [state, setState] = useState<Following['state']>('connecting');
  const [round, setRound] = useState(0);
  const pending = useRef<OutputChunk[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
    let frame = 0;
    pending.current = [];
    const arrived = { stdout: 0, stderr: 0 };
    setOutput(NOTHING);
    setPoints([]);
    setArtifacts([]);
    const whole = (): void => {
      get<Execution>(path`/v1/executions/${id}`, { signal: abort.signal }).then(
        (record) => {
          setExecution(record);
          setError(null);
        },
        (failed: unknown) => {
          if (!isAbort(failed)) setError(failed);
        });
    };
    const draw = (): void => {
      frame = 0;
      const waiting = pending.current;
      pending.current = [];
      setOutput((old) => ({ ...append(old, waiting), arrived: { ...arrived } }));
    };
    whole();
    void follow(path`/v1/executions/${id}/events`, {
      signal: abort.signal, ...(over ? { connect: over, restMs: Infinity } : {}),
      onState: (next, failed?: ApiError) => {
        setState(next);
        if (next === 'ended' && failed) setError(failed);
      },
      onEvent: ({ event, data }) => {
        if (event === 'heartbeat') return;
        const body = JSON.parse(data) as Record<string, unknown>;
        if (event === 'stdout' || event === 'stderr') {
          const raw = fromBase64(String(body['data'] ?? ''));
          if (!raw) return;
          arrived[event] = Number(body['offset'] ?? arrived[event]) + raw.length;
          pending.current.push({ stream: event, text: decoders[event].decode(raw, { stream: true }) });
          frame ||= requestAnimationFrame(draw);
        } else if (event === 'usage') {
          setPoints((old) => [...old, body as unknown as Usage].slice(-MAX_POINTS));
        } else if (event === 'artifact') {
          setArtifacts((old) => (old.length < 1000 ? [...old, body as unknown as ArtifactRef] : old));
        } else if (event === 'status') {
          const summary = body as unknown as Execution;
          setExecution((old) => ({ ...old, ...summary }));
          if (ENDED.has(summary.status)) whole();
        }
      },
    }).catch((failed: unknown) => {
      if (!abort.signal.aborted) setError(failed);
    });
    return () => {
      abort.abort();
      cancelAnimationFrame(frame);
    };
  }, [id, round]);
  return { execution, chunks: output.chunks, dropped: output.dropped, arrived: output.arrived, points, artifacts, error, state, reload: () => setRound((now) => now + 1) };
}
