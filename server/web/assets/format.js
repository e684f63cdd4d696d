// Numbers, steps, times and elements.

const SPECIAL = { NaN: NaN, Infinity: Infinity, '-Infinity': -Infinity };

// A value of the JSON API: null is missing, strings are what JSON has no numbers for, a ratio has its quotient in `value`.
export function number(raw) {
  if (raw === null || raw === undefined) return null;
  if (typeof raw === 'object') return number(raw.value);
  return typeof raw === 'string' ? SPECIAL[raw] : raw;
}

export function short(v) {
  if (v === null || v === undefined) return '–';
  if (Number.isNaN(v)) return 'NaN';
  if (!Number.isFinite(v)) return v > 0 ? '∞' : '−∞';
  const size = Math.abs(v);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return v.toExponential(1);
  return String(+v.toPrecision(4));
}

export function steps(v) {
  return v === null || v === undefined || v < 0 ? '–' : Math.round(v).toLocaleString('en-US');
}

export function ago(time) {
  const seconds = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  if (!Number.isFinite(seconds)) return '–';
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} d ago`;
}

export function place(alert) {
  if (alert.layer === null || alert.layer === undefined) return '';
  return `layer ${alert.layer}` + (alert.head === null || alert.head === undefined ? '' : `, head ${alert.head}`);
}

export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// el('td', {class: 'n', onclick: f, 'aria-label': 'x'}, 'text', otherElement): text is never read as HTML.
export function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (key === 'class') made.className = value;
    else made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.filter((c) => c !== null && c !== undefined));
  return made;
}

export function badge(kind, text) {
  return el('span', { class: `badge ${kind}` }, text);
}

// What a run's state and alerts come to, worst first. No data is never health.
export function health(run) {
  const list = [];
  if (run.firing_criticals > 0) list.push(badge('critical', `${run.firing_criticals} critical`));
  if (run.firing_warnings > 0) list.push(badge('warning', `${run.firing_warnings} warning${run.firing_warnings > 1 ? 's' : ''}`));
  if (run.unmonitored.length > 0) list.push(badge('info', 'partly unmonitored'));
  if (run.state === 'silent') list.push(badge('warning', 'silent'));
  if (run.state === 'failed') list.push(badge('critical', 'failed'));
  if (list.length === 0) list.push(run.state === 'running' ? badge('good', 'no alerts') : badge('none', run.state));
  return list;
}
