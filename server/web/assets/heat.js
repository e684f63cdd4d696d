// Layers x heads of one signal at a step, as a table that a screen reader can read too.
import { api } from './api.js';
import { el, number, short, steps } from './format.js';

// Dark blue over green to yellow: readable for the colour-blind, and printed in grey it still rises.
const RAMP = [[38, 42, 98], [47, 92, 140], [32, 138, 137], [82, 184, 104], [187, 213, 52], [253, 226, 60]];
const TEXT_UP_TO_HEADS = 16;

function color(t) {
  const x = Math.max(0, Math.min(1, t)) * (RAMP.length - 1);
  const i = Math.min(RAMP.length - 2, Math.floor(x));
  return RAMP[i].map((c, k) => Math.round(c + (x - i) * (RAMP[i + 1][k] - c)));
}

// Logarithmic where the values span more than a factor of 20.
function scaleOf(values) {
  const finite = values.filter((v) => v !== null && Number.isFinite(v));
  const low = Math.min(...finite), high = Math.max(...finite);
  const log = low > 0 && high / low > 20;
  const f = (v) => (log ? Math.log(v) : v);
  return { low, high, log, any: finite.length > 0, at: (v) => (high > low ? (f(v) - f(low)) / (f(high) - f(low)) : 0.3) };
}

export class HeatMap {
  // signals: catalogue entries per head. run: its name.
  constructor(run, signals) {
    this.run = run;
    this.sampled = [];
    this.follow = true;  // the newest step, until somebody moves the slider
    this.asked = 0;
    this.select = el('select', { id: 'heat-signal', onchange: () => this.choose() },
      ...signals.map((s) => el('option', { value: s.name, selected: s.name === 'qk_sigma1' }, s.name)));
    this.meaning = new Map(signals.map((s) => [s.name, s.meaning]));
    this.slider = el('input', { id: 'heat-step', type: 'range', min: 0, max: 0, value: 0, oninput: () => this.moved() });
    this.output = el('output', { for: 'heat-step' });
    this.table = el('div', { class: 'wide', id: 'heat-table' });
    this.scale = el('div', { class: 'scale' });
    this.root = el('section', { 'aria-labelledby': 'heat-title' },
      el('h2', { id: 'heat-title' }, 'Layers and heads'),
      el('div', { class: 'controls' }, el('label', { for: 'heat-signal' }, 'Signal ', this.select),
        el('label', { for: 'heat-step' }, 'Step'), this.slider, this.output),
      this.table, this.scale);
  }

  async choose() {
    const points = await api.series(this.run, this.select.value, { max_points: 300 });
    this.sampled = [...new Set(points.map((p) => p.step))];
    this.slider.max = Math.max(0, this.sampled.length - 1);
    if (this.follow) this.slider.value = this.slider.max;
    await this.show();
  }

  moved() {
    this.follow = +this.slider.value === +this.slider.max;
    return this.show();
  }

  // The sampled step at or before `step`.
  async goTo(step, signal) {
    this.follow = false;
    if (signal && this.meaning.has(signal) && this.select.value !== signal) {
      this.select.value = signal;
      await this.choose();
    }
    const index = this.sampled.findLastIndex((s) => s <= step);
    this.slider.value = Math.max(0, index);
    await this.show();
  }

  async show() {
    const step = this.sampled[+this.slider.value];
    if (step === undefined) {
      this.table.replaceChildren(el('p', { class: 'dim' }, 'not measured in this run'));
      this.scale.replaceChildren();
      this.output.textContent = '';
      return;
    }
    this.output.textContent = `step ${steps(step)}`;
    this.slider.setAttribute('aria-valuetext', `step ${steps(step)}`);
    const asked = ++this.asked;
    const reply = await api.step(this.run, step, this.select.value);
    if (asked === this.asked) this.draw(reply.frame.series);  // a later question may have been answered first
  }

  draw(series) {
    const layers = series.filter((s) => s.layer !== null).sort((a, b) => a.layer - b.layer);
    const heads = Math.max(0, ...layers.flatMap((s) => s.heads)) + 1;
    const cells = layers.map((s) => {
      const row = new Array(heads).fill(null);
      s.heads.forEach((h, i) => { row[h] = number(s.values[i]); });
      return row;
    });
    const scale = scaleOf(cells.flat());
    const worst = cells.flat().some((v) => v !== null) ? scale.high : null;
    const head = el('tr', {}, el('td'), ...cells[0].map((_, h) => el('th', { scope: 'col', 'aria-label': `head ${h}` },
      heads <= 32 || h % 4 === 0 ? String(h) : '')));
    const body = layers.map((s, l) => el('tr', {}, el('th', { scope: 'row' }, `layer ${s.layer}`),
      ...cells[l].map((v, h) => this.cell(s.layer, h, v, heads, scale, worst))));
    this.table.replaceChildren(el('table', { class: 'map' },
      el('caption', { class: 'hidden' }, `${this.select.value} by layer and head`), el('thead', {}, head), el('tbody', {}, ...body)));
    const bar = el('i');
    bar.style.background = `linear-gradient(90deg,${[0, 2, 4, 6, 8, 10].map((t) => `rgb(${color(t / 10)})`).join(',')})`;
    this.scale.replaceChildren(...(scale.any ? [short(scale.low), bar, short(scale.high) + (scale.log ? ' (logarithmic)' : '')] : []),
      el('span', {}, `${this.meaning.get(this.select.value)}. Columns are heads; outlined: the largest; hatched: not measured; red: not finite.`));
  }

  cell(layer, head, v, heads, scale, worst) {
    const text = v === null ? 'not measured' : short(v);
    const cell = el('td', { title: `layer ${layer}, head ${head}: ${text}` });
    if (v === null) {
      cell.className = 'missing';
    } else if (!Number.isFinite(v)) {
      cell.className = 'nan';
      cell.textContent = heads <= TEXT_UP_TO_HEADS ? text : '!';
    } else {
      const c = color(scale.at(v));
      cell.style.background = `rgb(${c})`;
      cell.style.color = c[0] * 0.3 + c[1] * 0.6 + c[2] * 0.1 > 130 ? '#111' : '#fff';
      if (v === worst) cell.classList.add('worst');
      if (heads <= TEXT_UP_TO_HEADS) {
        cell.style.minWidth = '52px';
        cell.textContent = text;
      } else {
        cell.append(el('span', { class: 'hidden' }, text));
      }
    }
    return cell;
  }
}
