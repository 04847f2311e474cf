// SPDX-License-Identifier: Apache-2.0
// The wall time of a run, which goes on while the run does.
import type { JSX } from 'preact';
import { useClock } from '../../hooks';
import { Duration } from '../../parts';
import { ENDED, type Execution } from '../../types';

export function RunTime({ execution }: { execution: Execution }): JSX.Element {
  const { started_at: started, resource_usage: usage } = execution;
  return started && !ENDED.has(execution.status) ? <Going since={Date.parse(started)} least={usage.wall_ms} /> : <Duration ms={usage.wall_ms} />;
}

function Going({ since, least }: { since: number; least: number }): JSX.Element {
  const now = useClock(1);
  const ms = Math.max(least, now - since);
  return <Duration ms={ms < 60_000 ? Math.floor(ms / 1000) * 1000 : ms} />;
}
