// SPDX-License-Identifier: Apache-2.0
// uPlot behind one file: in the colours of the page, and as wide as its place.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { GraphProps } from './graph';

export interface PlotHandle {
  update(props: GraphProps): void;
  destroy(): void;
}

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim() || '#888';
const LINES = ['--line-1', '--line-2', '--line-3', '--line-4'];

const dataOf = (props: GraphProps): uPlot.AlignedData => [props.times, ...props.series.map((one) => one.values)];

export function mountPlot(host: HTMLElement, first: GraphProps): PlotHandle {
  let props = first;
  const height = first.height ?? 140;
  const build = (): uPlot => {
    const format = props.format ?? ((value: number): string => String(value));
    const axis = { stroke: () => colour('--faint'), grid: { stroke: () => colour('--rule'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
    return new uPlot({
      width: Math.max(120, host.clientWidth), height,
      legend: { show: false }, cursor: { show: true, drag: { x: false, y: false } },
      scales: { x: { time: !props.elapsed }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max((high ?? 1) * 1.1, 0.001)] } },
      axes: [
        { ...axis, size: 24, ...(props.elapsed ? { values: (_: uPlot, ticks: number[]) => ticks.map((tick) => `${tick} s`) } : {}) },
        { ...axis, size: 64, values: (_: uPlot, ticks: number[]) => ticks.map(format) },
      ],
      series: [{}, ...props.series.map((one, index) => ({ label: one.label, stroke: () => colour(LINES[index % LINES.length] ?? '--line-1'), width: 1.5, points: { show: props.times.length < 3 } }))],
    }, dataOf(props), host);
  };
  let plot = build();
  const observer = new ResizeObserver(() => plot.setSize({ width: Math.max(120, host.clientWidth), height }));
  observer.observe(host);
  const redraw = (): void => plot.redraw(false);
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', redraw);
  return {
    update(next) {
      const rebuilt = next.series.length !== props.series.length;
      props = next;
      if (rebuilt) {
        plot.destroy();
        plot = build();
      } else {
        plot.setData(dataOf(next));
      }
    },
    destroy() {
      observer.disconnect();
      scheme.removeEventListener('change', redraw);
      plot.destroy();
    },
  };
}
