// The list of runs with their health.
import { api } from './api.js';
import { ago, el, health, number, short, steps } from './format.js';

const HEAD = ['', 'Run', 'State', 'Health', 'Step', 'Loss', 'Attempts', 'Last data'];
const NUMERIC = new Set(['Step', 'Loss', 'Attempts', 'Last data']);

// Those that need somebody first; then the newest, as the server gives them.
function urgency(run) {
  return run.firing_criticals > 0 ? 0 : run.firing_warnings > 0 || run.state === 'silent' ? 1 : run.state === 'running' ? 2 : 3;
}

export class RunsPage {
  constructor(root) {
    this.root = root;
    this.chosen = new Set();
    this.filter = el('input', { type: 'search', id: 'filter', placeholder: 'part of a name', oninput: () => this.draw() });
    this.compare = el('button', { type: 'button', disabled: true, onclick: () => this.open() }, 'Compare');
    this.body = el('tbody');
    this.empty = el('p', { class: 'dim' });
    root.replaceChildren(
      el('h1', {}, 'Runs'),
      el('div', { class: 'controls' }, el('label', { for: 'filter' }, 'Filter ', this.filter), this.compare),
      el('div', { class: 'wide' }, el('table', { id: 'runs' }, el('caption', { class: 'hidden' }, 'Training runs'),
        el('thead', {}, el('tr', {}, ...HEAD.map((h) => el('th', { scope: 'col', class: NUMERIC.has(h) ? 'n' : null },
          h || el('span', { class: 'hidden' }, 'Compare'))))), this.body)),
      this.empty);
    document.title = 'Runs · Foreshock';
  }

  async refresh() {
    this.runs = await api.runs();
    this.draw();
  }

  open() {
    location.hash = `#/compare/${[...this.chosen].map(encodeURIComponent).join('/')}`;
  }

  choose(run, on) {
    if (on) this.chosen.add(run); else this.chosen.delete(run);
    this.compare.disabled = this.chosen.size < 2;
    this.compare.textContent = this.chosen.size < 2 ? 'Compare' : `Compare ${this.chosen.size} runs`;
  }

  draw() {
    const wanted = this.filter.value.toLowerCase();
    const shown = (this.runs || []).filter((r) => r.run.toLowerCase().includes(wanted));
    shown.sort((a, b) => urgency(a) - urgency(b));
    const held = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : null;
    this.body.replaceChildren(...shown.map((run) => this.row(run)));
    if (held) this.body.querySelector(`[data-key="${CSS.escape(held)}"]`)?.focus();
    this.empty.textContent = shown.length ? '' : wanted ? 'No run has that in its name.'
      : 'No run yet. A trainer appears here with its first step: FORESHOCK_ADDR says where it sends.';
  }

  row(run) {
    const box = el('input', { type: 'checkbox', 'aria-label': `compare ${run.run}`, 'data-key': `box ${run.run}`,
      onchange: (event) => this.choose(run.run, event.target.checked) });
    box.checked = this.chosen.has(run.run);
    return el('tr', { 'data-run': run.run },
      el('td', {}, box),
      el('th', { scope: 'row' }, el('a', { href: `#/run/${encodeURIComponent(run.run)}`, 'data-key': `link ${run.run}` }, run.run)),
      el('td', {}, run.state), el('td', {}, ...health(run).flatMap((b) => [b, ' '])),
      el('td', { class: 'n' }, steps(run.last_step)), el('td', { class: 'n' }, short(number(run.last_loss))),
      el('td', { class: 'n' }, String(run.attempts.length)), el('td', { class: 'n' }, ago(run.last_at)));
  }

  destroy() {}
}
