// SPDX-License-Identifier: Apache-2.0
// What a run used, against its limits and over its time.
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { Card, Graph, Notice } from '../../parts';
import { bytes, duration, number } from '../../text';
import { ENDED, type Execution, type Limits } from '../../types';
import { rates } from './rates';
import type { Following } from './stream';

const MIB = 1024 * 1024;
const YEAR_MS = 365 * 86_400_000;
// A program may last as long as its session: no time is its limit.
const time = (seconds: number | undefined): number | undefined => (seconds !== undefined && seconds * 1000 < YEAR_MS ? seconds * 1000 : undefined);
const space = (mib: number | undefined): number | undefined => (mib === undefined ? undefined : mib * MIB);
const processors = (count: number): string => `${number(count)} ${count === 1 ? 'processor' : 'processors'}`;

export function UsageView({ execution, points, arrived }: { execution: Execution } & Pick<Following, 'points' | 'arrived'>): JSX.Element {
  const ended = ENDED.has(execution.status);
  const limits: Partial<Limits> = execution.limits ?? {};
  const usage = ended ? execution.resource_usage : (points.at(-1) ?? execution.resource_usage);
  const graph = useMemo(() => rates(points), [points]);
  const bars: [string, number | null, number | undefined, (value: number) => string][] = [
    ['Wall time', usage.wall_ms, time(limits.timeout_seconds), duration],
    ['Processor time', usage.cpu_ms, time(limits.cpu_seconds), duration],
    ['Processors', null, limits.cpu_millis === undefined ? undefined : limits.cpu_millis / 1000, processors],
    ['Memory, peak', usage.max_rss_bytes, space(limits.memory_mb), bytes],
    ['Processes, peak', usage.processes, limits.pids, number],
    ['Open files, peak', usage.open_files, limits.open_files, number],
    ['Output, of each stream', Math.max(execution.stdout_bytes, execution.stderr_bytes, arrived.stdout, arrived.stderr), limits.max_output_bytes, bytes],
    ['Disk', null, usage.disk_limit_bytes || space(limits.disk_mb), bytes],
    ['Read from disk', usage.io_read_bytes, undefined, bytes],
    ['Written to disk', usage.io_write_bytes, undefined, bytes],
  ];
  const limit = execution.error?.details['limit'];
  return (
    <div class="stack">
      {typeof limit === 'string' && <Notice tone="bad" title={`It reached the limit ${limit}.`}><p>Ask for more with this member of the request, if policy allows it.</p></Notice>}
      <Card title="Use and limits">
        <div class="meters">
          {bars.map(([name, used, most, format]) => <Meter key={name} name={name} used={used} most={most} format={format} />)}
        </div>
        {!execution.limits && <p class="hint">{ended ? 'It did not start, so no limits were in force.' : 'The limits appear here with the start.'}</p>}
      </Card>
      {graph.times.length >= 2
        ? (
          <div class="columns">
            <Card><Graph label="Processors in use" elapsed times={graph.times} series={[{ label: 'processors', values: graph.processors }]} format={(value) => value.toFixed(2)} /></Card>
            <Card><Graph label="Memory, peak so far" elapsed times={graph.times} series={[{ label: 'memory', values: graph.memory }]} format={bytes} /></Card>
          </div>
        )
        : <p class="soft">{ended ? 'The run ended before two seconds had passed, so there is no use over time.' : 'The use over time appears as the service reports it.'}</p>}
    </div>
  );
}

function Meter({ name, used, most, format }: { name: string; used: number | null; most: number | undefined; format(value: number): string }): JSX.Element {
  const part = used !== null && most ? Math.min(1, used / most) : null;
  return (
    <div class="meter">
      <span>{name}</span>
      {part === null ? <span class="meter-bar none" /> : <meter min={0} max={1} high={0.8} optimum={0} value={part} aria-label={name} aria-valuetext={`${format(used ?? 0)} of ${format(most ?? 0)}`} />}
      <span class="num">{used === null ? (most ? 'at most' : 'not counted') : format(used)}{most ? <span class="faint"> {used === null ? '' : 'of '}{format(most)}</span> : null}</span>
    </div>
  );
}
