// Acting on a run: only with the server's control token, and only after a confirmation that says what will happen.
import { api, token } from './api.js';
import { el, short, number, steps } from './format.js';

const KINDS = {
  enable_qk_norm: 'switches on query-key normalization in the chosen layers: logits become bounded, at the price of a passing rise of the loss',
  qk_clip: 'scales query and key weights of the chosen layers down so that no logit exceeds the value',
  checkpoint: 'asks the trainer to write a checkpoint',
  stop: 'asks the trainer to stop',
};

// Opens the page's dialog; resolves with the content's answer, or null when it is dismissed.
export function ask(title, content, buttons) {
  const dialog = document.getElementById('dialog');
  return new Promise((resolve) => {
    dialog.replaceChildren(el('h2', { id: 'dialog-title' }, title), ...content, el('div', { class: 'buttons' },
      ...buttons.map(([text, value, kind]) => el('button', { type: 'button', class: kind, onclick: () => dialog.close(value) }, text))));
    dialog.returnValue = '';
    dialog.onclose = () => resolve(dialog.returnValue || null);
    dialog.showModal();
  });
}

export async function askForToken() {
  const state = await api.control();
  if (!state.token_configured) {
    await ask('Control token', [el('p', {}, 'This server has no control token, so this page only reads. An operator sets '
      + 'control_token_file in its configuration; on the server\'s own machine "foreshock act" works without.')], [['Close', '']]);
    return;
  }
  if (token.get() && state.token_known) {
    const answer = await ask('Control token', [el('p', {}, state.token_given ? 'This tab may act on runs.' : 'This tab may read; its token lacks the scope control.')], [['Forget the token', 'forget'], ['Close', '']]);
    if (answer === 'forget') token.set('');
    return;
  }
  const input = el('input', { type: 'password', id: 'token', autocomplete: 'off' });
  const answer = await ask('Control token', [el('label', { for: 'token' }, 'Token of this server (its control_token_file, or one of `foreshock token create`)'), input],
    [['Cancel', ''], ['Use it', 'use']]);
  if (answer !== 'use') return;
  token.set(input.value.trim());
  if (!(await api.control()).token_known) {
    token.set('');
    await ask('Control token', [el('p', { class: 'error' }, 'The server does not know this token.')], [['Close', '']]);
  }
}

export class Actions {
  constructor(run, layers) {
    this.run = run;
    this.may = el('p', { class: 'dim' });
    this.kind = el('select', { id: 'act-kind', onchange: () => this.adapt() }, ...Object.keys(KINDS).map((k) => el('option', { value: k }, k)));
    this.layers = el('input', { id: 'act-layers', placeholder: 'all', size: 12 });
    this.value = el('input', { id: 'act-value', type: 'number', min: 0, step: 'any', size: 8 });
    this.valueLabel = el('label', { for: 'act-value' }, 'Largest logit ', this.value);
    this.reason = el('input', { id: 'act-reason', size: 28 });
    this.form = el('div', { class: 'controls', hidden: true }, el('label', { for: 'act-kind' }, 'Action ', this.kind),
      el('label', { for: 'act-layers' }, 'Layers ', this.layers), this.valueLabel, el('label', { for: 'act-reason' }, 'Reason ', this.reason),
      el('button', { type: 'button', class: 'danger', id: 'act-propose', onclick: () => this.propose() }, 'Propose…'));
    this.message = el('p', { role: 'status' });
    this.list = el('div', { class: 'wide' });
    this.knownLayers = new Set(layers);
    this.root = el('section', { 'aria-labelledby': 'actions-title' }, el('h2', { id: 'actions-title' }, 'Actions'), this.may, this.form,
      this.message, this.list);
    this.adapt();
  }

  adapt() {
    this.valueLabel.hidden = this.kind.value !== 'qk_clip';
    this.layers.parentElement.hidden = !['enable_qk_norm', 'qk_clip'].includes(this.kind.value);
  }

  body() {
    const layers = this.layers.value.split(/[ ,]+/).filter(Boolean).map(Number);
    const unknown = layers.filter((l) => !this.knownLayers.has(l));
    if (unknown.length) throw new Error(`layers: the run has no layer ${unknown[0]}`);
    const body = { kind: this.kind.value, reason: this.reason.value, issuer: 'web page' };
    if (layers.length && !this.layers.parentElement.hidden) body.layers = layers;
    if (this.kind.value === 'qk_clip') {
      body.value = Number(this.value.value);
      if (!(body.value > 0)) throw new Error('largest logit: a number above 0');
    }
    return body;
  }

  async propose() {
    this.message.className = '';
    try {
      const body = this.body();
      const where = body.layers ? ` in layers ${body.layers.join(', ')}` : '';
      const answer = await ask(`${body.kind} on ${this.run}?`, [el('p', {}, `This ${KINDS[body.kind]}${where}.`),
        el('p', { class: 'dim' }, 'The trainer takes it only if its own allow-list has it. What it did is measured and shown here.')],
      [['Cancel', ''], [`Yes, ${body.kind}`, 'yes', 'danger']]);
      if (answer !== 'yes') return;
      const reply = await api.act(this.run, body);
      this.message.textContent = `proposed ${body.kind} (${reply.action.id})`;
      await this.refresh();
    } catch (error) {
      this.message.className = 'error';
      this.message.textContent = error.message;
    }
  }

  async refresh() {
    const [state, actions] = await Promise.all([api.control(), api.actions(this.run)]);
    this.form.hidden = !state.token_given;
    this.may.textContent = state.token_given ? '' : state.token_configured
      ? 'Reads only: give the control token (top right) to act.' : 'Reads only: this server has no control token.';
    const key = JSON.stringify(actions);
    if (key === this.key) return;
    this.key = key;
    const rows = actions.map((a) => el('tr', {}, el('th', { scope: 'row' }, a.action.kind),
      el('td', {}, a.action.layers && a.action.layers.length ? a.action.layers.join(', ') : 'all'),
      el('td', {}, a.action.issuer || '–', el('small', {}, a.action.reason || '')),
      el('td', {}, a.state.replace('_', ' '), el('small', {}, [a.detail, a.note].filter(Boolean).join('; '))),
      el('td', { class: 'n' }, steps(a.state_step)),
      el('td', { class: 'n' }, `${short(number(a.logit_before))} → ${short(number(a.logit_after))}`)));
    this.list.replaceChildren(rows.length ? el('table', { id: 'actions' }, el('thead', {}, el('tr', {}, ...['Action', 'Layers', 'By', 'State']
      .map((h) => el('th', { scope: 'col' }, h)), el('th', { scope: 'col', class: 'n' }, 'Step'),
    el('th', { scope: 'col', class: 'n' }, 'Largest logit'))), el('tbody', {}, ...rows)) : el('p', { class: 'dim' }, 'none yet'));
  }
}
