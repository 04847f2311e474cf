// SPDX-License-Identifier: Apache-2.0
// Reads the export piece by piece and gives it to the chain. A cut connection continues behind the last entry.
import { fromBase64 } from './crypto';
import { Chain, ChainError, readHead, verifyHead } from './chain';
import type { VerifyMessage, VerifyStart } from './protocol';

const TRIES = 5;
const PROGRESS_MS = 200;
export const MAX_HEADS_BYTES = 64 << 20;

type Report = (message: VerifyMessage) => void;

class Refused extends Error {}

/** Adds the kept heads to `chain`, each with a verified signature. */
async function expectHeads(chain: Chain, { name, text }: { name: string; text: string }, publicKey: string): Promise<void> {
  if (text.length > MAX_HEADS_BYTES) throw new Refused(`${name}: is larger than 64 MiB; choose a file of checkpoints`);
  const key = fromBase64(publicKey.trim());
  let heads = 0;
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const head = readLine(name, index + 1, line);
    if (!(await verifyHead(head, key))) {
      throw new ChainError(head.seq, `${name}: its checkpoint of entry ${head.seq} is not signed by this key`);
    }
    chain.expect(head, true);
    heads += 1;
  }
  if (heads === 0) throw new Refused(`${name}: has no checkpoint; choose a copy of audit.checkpoints`);
}

function readLine(name: string, number: number, line: string): ReturnType<typeof readHead> {
  try {
    return readHead(line);
  } catch (error) {
    throw new Refused(`${name}, line ${number}: is no checkpoint (${error instanceof Error ? error.message : String(error)})`);
  }
}

async function open(url: string, after: number, signal?: AbortSignal): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const target = new URL(url);
  target.searchParams.set('after', String(after));
  const answer = await fetch(target, { headers: { Accept: 'application/x-ndjson' }, credentials: 'same-origin', signal: signal ?? null });
  if (!answer.ok || !answer.body) throw new Refused(`the service answered ${answer.status}; sign in again, or ask an administrator`);
  return answer.body.getReader();
}

/** Walks the log from its first entry. Reports progress, then exactly one of ok, broken and failed. */
export async function walkExport(start: VerifyStart, report: Report, signal?: AbortSignal): Promise<void> {
  const chain = new Chain();
  let bytes = 0;
  let told = 0;
  const readOnce = async (): Promise<void> => {
    const reader = await open(start.exportUrl, chain.entries, signal);
    try {
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
        bytes += piece.value.length;
        await chain.feed(piece.value);
        if (Date.now() - told < PROGRESS_MS) continue;
        told = Date.now();
        report({ kind: 'progress', entries: chain.entries, bytes, at: chain.at });
      }
    } finally {
      void reader.cancel().catch(() => undefined);
    }
  };
  try {
    if (start.heads) await expectHeads(chain, start.heads, start.publicKey);
    for (const each of start.seen) chain.expect(each, false);
    await withTries(readOnce, chain);
    chain.finish();
    if (chain.entries === 0) throw new Refused('the log has no entry');
    report({ kind: 'ok', entries: chain.entries, bytes, head: chain.head, held: start.heads ? chain.held : null });
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    if (error instanceof ChainError) report({ kind: 'broken', position: error.position, problem, entries: chain.entries });
    else report({ kind: 'failed', problem, entries: chain.entries });
  }
}

/** A cut connection is tried again as long as each try brings entries. */
async function withTries(readOnce: () => Promise<void>, chain: Chain): Promise<void> {
  for (let left = TRIES; ; left--) {
    const before = chain.entries;
    try {
      return await readOnce();
    } catch (error) {
      const final = error instanceof ChainError || error instanceof Refused || left <= 1;
      if (final || (error instanceof DOMException && error.name === 'AbortError')) throw error;
      if (chain.entries > before) left = TRIES;
      chain.forgetPartialLine();
    }
  }
}
