// SPDX-License-Identifier: Apache-2.0
// A graph over time, drawn by uPlot, which arrives when the first graph is drawn.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { PlotHandle } from './plot';

export interface Series {
  label: string;
  values: (number | null)[];
}

export interface GraphProps {
  label: string;
  /** Seconds since 1970, or since a start. */
  times: number[];
  series: Series[];
  format?: (value: number) => string;
  /** Times are seconds since a start. */
  elapsed?: boolean;
  height?: number;
}

export function Graph(props: GraphProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<PlotHandle | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let gone = false;
    void import('./plot').then(({ mountPlot }) => {
      if (!gone && host.current) plot.current = mountPlot(host.current, latest.current);
    }, () => setFailed(true));
    return () => {
      gone = true;
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.update(props), [props.times, props.series]);
  const format = props.format ?? String;
  const words = props.series.map((one) => {
    const last = one.values.filter((value): value is number => value !== null).at(-1);
    return `${one.label}: ${last === undefined ? 'no value' : format(last)}`;
  }).join(', ');
  return (
    <figure class="graph" role="img" aria-label={`${props.label}. Now ${words}.`}>
      <figcaption>{props.label}<span class="graph-now">{words}</span></figcaption>
      {failed ? <p class="faint">The graph could not be loaded.</p> : <div ref={host} style={{ height: `${props.height ?? 140}px` }} />}
    </figure>
  );
}
