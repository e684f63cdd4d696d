// Line charts on a shared step axis: zooming one zooms all of a group.
/* global Dygraph */
import { css, short, steps } from './format.js';

const COLORS = 6;
export const lineColor = (i) => css(`--line${i % COLORS}`);

// A set of charts that share their zoom and their marks (vertical lines at steps).
export class ChartGroup {
  constructor() {
    this.charts = [];
    this.marks = [];
    this.syncing = false;
    this.onScheme = () => this.recolor();
    this.scheme = matchMedia('(prefers-color-scheme: dark)');
    this.scheme.addEventListener('change', this.onScheme);
  }

  // element: a box with a size. labels: of the columns behind the step. colors: () => [css colour].
  add(element, labels, colors, rows, more = {}) {
    const chart = { graph: null, colors, element };
    chart.graph = new Dygraph(element, rows.length ? rows : [[0, ...labels.map(() => null)]], {
      labels: ['step', ...labels], connectSeparatedPoints: true, strokeWidth: 1.5, legend: 'onmouseover', rightGap: 12,
      colors: colors(), axisLineColor: css('--axis'), gridLineColor: css('--grid'), gridLineWidth: 0.5, axisLabelFontSize: 12,
      axes: {
        x: { axisLabelFormatter: (v) => steps(v) === '–' ? '' : steps(v), valueFormatter: (v) => `step ${steps(v)}`, axisLabelWidth: 70 },
        y: { axisLabelFormatter: short, valueFormatter: short, axisLabelWidth: 56 },
      },
      underlayCallback: (context, area, graph) => this.drawMarks(context, area, graph),
      drawCallback: (graph, initial) => { if (!initial) this.follow(graph); },
      ...(this.window ? { dateWindow: JSON.parse(this.window) } : {}),
      ...more,
    });
    this.charts.push(chart);
    return chart.graph;
  }

  remove(graph) {
    this.charts = this.charts.filter((c) => c.graph !== graph);
    graph.destroy();
  }

  follow(leader) {
    if (this.syncing) return;
    const window = leader.isZoomed('x') ? leader.xAxisRange() : null;
    const key = JSON.stringify(window);
    if (key === this.window) return;
    this.window = key;
    this.syncing = true;
    for (const { graph } of this.charts) if (graph !== leader) graph.updateOptions({ dateWindow: window });
    this.syncing = false;
  }

  // marks: [{step, kind}]
  setMarks(marks) {
    this.marks = marks;
  }

  drawMarks(context, area, graph) {
    for (const mark of this.marks) {
      const x = graph.toDomXCoord(mark.step);
      if (!(x >= area.x && x <= area.x + area.w)) continue;
      context.save();
      context.strokeStyle = css(`--${mark.kind}`);
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(x, area.y);
      context.lineTo(x, area.y + area.h);
      context.stroke();
      context.restore();
    }
  }

  recolor() {
    for (const { graph, colors } of this.charts) {
      graph.updateOptions({ colors: colors(), axisLineColor: css('--axis'), gridLineColor: css('--grid') });
    }
  }

  destroy() {
    this.scheme.removeEventListener('change', this.onScheme);
    for (const { graph } of this.charts) graph.destroy();
    this.charts = [];
  }
}
