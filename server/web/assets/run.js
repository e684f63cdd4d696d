// One run, or several side by side: loss and signals on one step axis, the heat map, alerts, actions.
import { Actions } from './actions.js';
import { api, followWithToken } from './api.js';
import { ChartGroup, lineColor } from './charts.js';
import { badge, el, health, number, place, short, steps } from './format.js';
import { HeatMap } from './heat.js';

const EARLY = ['qk_sigma1', 'logit_max', 'update_sign_mean_1', 'saturated_row_fraction', 'tied_row_fraction', 'delta_error'];
const MAX_POINTS = 1500;
const TABLE_ROWS = 20;  // the newest; more on request
const STATS = ['largest head', 'median head', 'smallest head'];

function median(sorted) {
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// [max, median, min] over the heads that are numbers; NaN where a head is none.
function stats(values) {
  const all = values.map(number).filter((v) => v !== null);
  const finite = all.filter(Number.isFinite).sort((a, b) => a - b);
  if (finite.length === 0) return all.length ? [NaN, NaN, NaN] : [null, null, null];
  return [all.length > finite.length ? NaN : finite[finite.length - 1], median(finite), finite[0]];
}

// Joins columns of [step, value] pairs on one axis of steps.
function join(columns) {
  const rows = new Map();
  columns.forEach((column, c) => {
    for (const [step, value] of column) {
      if (!rows.has(step)) rows.set(step, [step, ...columns.map(() => null)]);
      rows.get(step)[c + 1] = Number.isFinite(value) ? value : NaN;  // a gap; null would be drawn over
    }
  });
  return [...rows.values()].sort((a, b) => a[0] - b[0]);
}

// A series that grows: asks only for what came since.
class Feed {
  constructor(run, signal, more, reduce) {
    Object.assign(this, { run, signal, more, reduce, rows: [], next: 0 });
  }

  async refresh() {
    const points = await api.series(this.run, this.signal, { ...this.more, from: this.next || undefined, max_points: MAX_POINTS });
    for (const p of points) this.rows.push([p.step, ...this.reduce(p.series.values)]);
    if (points.length) this.next = points[points.length - 1].step + 1;
    if (this.rows.length > 3 * MAX_POINTS) this.rows = this.rows.filter((_, i, all) => i % 2 === 0 || i === all.length - 1);
    return points.length > 0;
  }
}

function figure(title, meaning, keys) {
  const box = el('div', { class: 'chart', role: 'img' });
  const last = el('span', { class: 'last' });
  const legend = keys.map((text, i) => {
    const key = el('span', { class: 'key' });
    key.style.background = `var(--line${i % 6})`;
    return el('span', { class: 'entry' }, key, text);
  });
  const caption = el('figcaption', {}, el('b', {}, title, ' '), last, el('span', { class: 'what' }, meaning, ...legend));
  return { box, last, root: el('figure', {}, caption, box) };
}

// Why nobody is notified of an alert that fires.
function quieted(a) {
  if (a.acknowledgement) return [' ', badge('info', `taken by ${a.acknowledgement.author}`)];
  return a.silences.length ? [' ', badge('info', 'silenced')] : [];
}

export class RunPage {
  constructor(root, runs, catalogue) {
    Object.assign(this, { root, runs, catalogue, feeds: [], group: new ChartGroup(), layer: 0, seen: new Set(), built: 0 });
    this.single = runs.length === 1;
    this.title = el('h1', {}, this.single ? runs[0] : `${runs.length} runs compared`);
    this.facts = el('div');
    this.charts = el('div', { class: 'grid' });
    this.loss = figure('loss', 'training loss, by optimizer step; dashed: alerts', runs);
    this.loss.box.classList.add('tall');
    this.layerSelect = el('select', { id: 'layer', onchange: () => this.setLayer(+this.layerSelect.value) });
    this.alerts = el('div', { id: 'alerts' });
    this.postMortem = el('p', { id: 'post-mortem', hidden: true }, el('a', { href: `${this.reportPage()}#what-happened`, onclick: followWithToken }, 'What happened'),
      ': when it began, which head went first, the last checkpoint before it, what was done and what became of it.');
    document.title = `${this.title.textContent} · Foreshock`;
  }

  async build() {
    const infos = await Promise.all(this.runs.map((run) => api.run(run)));
    const layers = [...new Set(infos.flatMap((i) => (i.model ? i.model.layers : []).map((l) => l.layer)))].sort((a, b) => a - b);
    this.layers = layers.length ? layers : [0];
    if (this.single) this.alertList = await api.alerts(this.runs[0]);
    const first = (this.alertList || []).filter((a) => a.layer !== null).sort((a, b) => a.fired_step - b.fired_step)[0];
    this.layer = first ? first.layer : this.layers[0];
    this.layerSelect.replaceChildren(...this.layers.map((l) => el('option', { value: l, selected: l === this.layer }, String(l))));
    const log = el('input', { type: 'checkbox', id: 'log', onchange: () => this.lossGraph.updateOptions({ logscale: log.checked }) });
    const parts = [this.title, this.facts, this.loss.root,
      el('div', { class: 'controls' }, el('label', { for: 'log' }, log, 'Logarithmic loss')),
      el('h2', {}, 'What moves before the loss'),
      el('div', { class: 'controls' }, el('label', { for: 'layer' }, 'Layer ', this.layerSelect),
        el('span', { class: 'dim' }, 'Drag to zoom all charts, double-click to see everything.')), this.charts];
    if (this.single) {
      this.heat = new HeatMap(this.runs[0], this.catalogue.signals.filter((s) => s.scope !== 'scalar'));
      this.actions = new Actions(this.runs[0], this.layers);
      parts.push(this.heat.root, el('section', { 'aria-labelledby': 'alerts-title' }, el('h2', { id: 'alerts-title' }, 'Alerts'),
        this.postMortem, this.alerts),
        this.actions.root);
    }
    parts.push(el('p', {}, el('a', { href: this.reportPage(), onclick: followWithToken }, 'Report'), ' (a page of its own, to keep or print)'));
    if (this.gone) return;
    this.root.replaceChildren(...parts);
    this.lossFeeds = this.runs.map((run) => new Feed(run, 'loss', {}, (values) => [number(values[0])]));
    await Promise.all(this.lossFeeds.map((f) => f.refresh()));
    if (this.gone) return;
    const names = this.single ? ['loss'] : this.runs;
    this.lossGraph = this.group.add(this.loss.box, names, () => names.map((_, i) => lineColor(i)), this.lossRows());
    await this.buildSignals();
    if (this.heat) await this.heat.choose();
  }

  reportPage() {
    return `/report?${this.runs.map((r) => `run=${encodeURIComponent(r)}`).join('&')}`;
  }

  lossRows() {
    return join(this.lossFeeds.map((f) => f.rows));
  }

  // One chart a signal: of one run its largest, median and smallest head; of several their largest heads.
  async buildSignals() {
    const mine = ++this.built;
    const made = await Promise.all(EARLY.map(async (signal) => {
      const info = this.catalogue.signals.find((s) => s.name === signal);
      const feeds = this.runs.map((run) => new Feed(run, signal, { layer: this.layer }, stats));
      await Promise.all(feeds.map((f) => f.refresh().catch(() => false)));
      const labels = this.single ? STATS : this.runs;
      const meaning = info ? info.meaning : '';
      return { signal, feeds, labels, figure: figure(`${signal}, layer ${this.layer}`, this.single ? meaning : `${meaning}: largest head`, labels) };
    }));
    if (this.gone || mine !== this.built) return;  // another layer was chosen meanwhile
    for (const m of this.feeds) this.group.remove(m.graph);
    this.feeds = made.filter((m) => m.feeds.some((f) => f.rows.length));
    this.charts.replaceChildren(...this.feeds.map((m) => m.figure.root));
    if (!this.feeds.length) this.charts.replaceChildren(el('p', { class: 'dim' }, 'No head of this layer has been measured.'));
    for (const m of this.feeds) m.graph = this.group.add(m.figure.box, m.labels, () => m.labels.map((_, i) => lineColor(i)), this.signalRows(m));
  }

  signalRows(made) {
    const column = (feed, i) => feed.rows.map((row) => [row[0], row[i + 1]]);
    return join(this.single ? STATS.map((_, i) => column(made.feeds[0], i)) : made.feeds.map((f) => column(f, 0)));
  }

  async setLayer(layer) {
    this.layer = layer;
    this.layerSelect.value = layer;
    await this.buildSignals();
    this.describe();
  }

  async refresh() {
    if (!this.lossGraph) await this.build();
    if (this.gone) return;
    const [infos, lists] = await Promise.all([
      Promise.all(this.runs.map((run) => api.run(run))), Promise.all(this.runs.map((run) => api.alerts(run))),
      ...this.lossFeeds.map((f) => f.refresh()), ...this.feeds.flatMap((m) => m.feeds).map((f) => f.refresh().catch(() => false))]);
    if (this.gone) return;
    this.drawFacts(infos);
    this.alertList = lists[0];
    this.group.setMarks(lists.flat().filter((a) => a.severity !== 'info').map((a) => ({ step: a.fired_step, kind: a.severity })));
    if (this.single) this.drawAlerts(infos[0]);
    this.lossGraph.updateOptions({ file: this.lossRows() });
    for (const m of this.feeds) m.graph.updateOptions({ file: this.signalRows(m) });
    if (this.heat && this.heat.follow && this.feeds.some((m) => m.feeds[0].next > (this.heat.sampled.at(-1) || 0) + 1)) await this.heat.choose();
    if (this.actions) await this.actions.refresh();
    this.describe();
  }

  // The charts in words.
  describe() {
    const tell = (f, name, row) => {
      f.last.textContent = row && this.single ? short(row[1]) : '';
      f.box.setAttribute('aria-label', row ? `${name}: ${short(row[1])} at step ${steps(row[0])}` : `${name}: no data`);
    };
    tell(this.loss, 'Chart of the loss', this.lossFeeds[0].rows.at(-1));
    for (const m of this.feeds) tell(m.figure, `Chart of ${m.signal}, largest head of layer ${this.layer}`, m.feeds[0].rows.at(-1));
  }

  drawFacts(infos) {
    this.facts.replaceChildren(...infos.map((run) => el('div', { class: 'facts' },
      el('span', {}, this.single ? '' : el('a', { href: `#/run/${encodeURIComponent(run.run)}` }, run.run), ' ', ...health(run).flatMap((b) => [b, ' '])),
      el('span', {}, 'state ', el('b', {}, run.state)), el('span', {}, 'step ', el('b', {}, steps(run.last_step))),
      el('span', {}, 'loss ', el('b', {}, short(number(run.last_loss)))),
      el('span', {}, 'model ', el('b', {}, run.model ? run.model.name : '–')),
      ...run.unmonitored.map((u) => badge('info', `unmonitored: ${u.name || ''} ${u.reason || ''}`.trim())),
    )));
  }

  drawAlerts(run) {
    const list = [...this.alertList].sort((a, b) => a.fired_step - b.fired_step);
    // The runs of which the report tells a story.
    this.postMortem.hidden = run.state !== 'failed' && !list.some((a) => a.severity === 'critical');
    for (const a of list) {
      if (this.seen.has(a.id)) continue;
      if (this.seen.size && a.state === 'firing') document.getElementById('announce').textContent = `${a.severity}: ${a.summary}`;
    }
    this.seen = new Set([...list.map((a) => a.id), 'seen']);
    // Where the line ends is drawn anew when it has moved by a tenth, not at every step: what has the focus keeps it.
    const key = JSON.stringify([list.map((a) => [a.id, a.state, a.severity, a.silences, a.acknowledgement]), run.state, Math.floor(10 * Math.log(run.last_step + 1))]);
    if (key === this.alertKey) return;
    this.alertKey = key;
    if (!list.length) {
      this.alerts.replaceChildren(el('p', { class: 'dim' }, 'none'));
      return;
    }
    const end = Math.max(run.last_step, ...list.map((a) => a.fired_step), 1);
    const rows = Map.groupBy(list, (a) => `${a.rule} ${place(a)}`.trim());
    this.alerts.replaceChildren(
      el('ol', { class: 'timeline', 'aria-label': 'Alerts over steps' }, ...[...rows].map(([name, of]) =>
        el('li', {}, el('span', { title: name }, name), el('div', {}, ...of.map((a) => this.bar(a, end)))))),
      el('div', { class: 'axis' }, el('span', {}, 'step 0'), el('span', {}, `step ${steps(end)}`)), this.alertTable(list));
  }

  // One alert, from the step where it fired to where it resolved.
  bar(a, end) {
    const until = a.state === 'firing' ? end : Math.max(a.resolved_step, a.fired_step);
    const when = `steps ${steps(a.fired_step)} to ${a.state === 'firing' ? 'now' : steps(a.resolved_step)}`;
    const button = el('button', { type: 'button', class: `${a.severity} ${a.state}`, title: `${when}: ${a.summary}`,
      onclick: () => this.inspect(a), 'aria-label': `${a.severity} ${a.rule} ${place(a)}, ${when}: show it` });
    button.style.left = `${Math.min(99.5, 100 * a.fired_step / end)}%`;
    button.style.width = `${100 * (until - a.fired_step) / end}%`;
    return button;
  }

  // Brings charts and map to where the alert is.
  async inspect(alert) {
    if (alert.layer !== null && alert.layer !== this.layer) await this.setLayer(alert.layer);
    const signal = alert.evidence.map((e) => e.name).find((n) => this.heat.meaning.has(n));
    await this.heat.goTo(alert.fired_step, signal);
    this.heat.root.scrollIntoView({ block: 'nearest' });
  }

  alertTable(list) {
    const all = this.allAlerts || list.length <= TABLE_ROWS;
    const shown = list.toReversed().slice(0, all ? list.length : TABLE_ROWS);
    const row = (a) => el('tr', {}, el('td', {}, badge(a.severity, a.severity), ...quieted(a)), el('th', { scope: 'row' }, a.rule, el('small', {}, place(a))),
      el('td', { class: 'n' }, steps(a.first_step)), el('td', { class: 'n' }, steps(a.fired_step)),
      el('td', { class: 'n' }, a.state === 'firing' ? 'firing' : steps(a.resolved_step)),
      el('td', { class: 'what' }, a.summary, a.acknowledgement && a.acknowledgement.comment
        ? el('small', {}, `${a.acknowledgement.author}: ${a.acknowledgement.comment}`) : '', el('small', {}, a.advice)),
      el('td', {}, ...a.evidence.map((e) => el('div', {}, `${e.name} `, el('b', {}, short(number(e.value))),
        e.has_baseline === false || number(e.baseline) === null ? '' : el('small', {}, `normal ${short(number(e.baseline))}`)))),
      el('td', { class: 'n' }, a.last_checkpoint_step < 0 ? '–' : steps(a.last_checkpoint_step)));
    return el('div', { class: 'wide' }, el('table', { id: 'alert-table' }, el('thead', {}, el('tr', {},
      ...['', 'Rule', 'Evidence from', 'Fired', 'Resolved', 'What, and what to do', 'Evidence', 'Checkpoint before'].map((h) =>
        el('th', { scope: 'col', class: ['Evidence from', 'Fired', 'Resolved', 'Checkpoint before'].includes(h) ? 'n' : null }, h)))),
    el('tbody', {}, ...shown.map(row))), all ? null : el('p', {}, el('button', { type: 'button', onclick: () => {
      this.allAlerts = true;
      this.alerts.lastChild.replaceWith(this.alertTable(list));
    } }, `Show all ${list.length} alerts`)));
  }

  destroy() {
    this.gone = true;
    this.group.destroy();
  }
}
