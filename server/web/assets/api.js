// The JSON API (docs/api.md), and the token of this browser tab.

const KEY = 'foreshock-control-token';

export const token = {
  get: () => sessionStorage.getItem(KEY) || '',
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options) {
  let reply;
  try {
    reply = await fetch(path, { ...options, headers: { ...(options && options.headers), ...bearer() }, cache: 'no-store' });
  } catch (error) {
    throw new ApiError(0, 'the server does not answer');
  }
  const body = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new ApiError(reply.status, body.error ? body.error.message : `HTTP ${reply.status}`);
  return body;
}

function query(values) {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined) words.append(key, value);
  }
  return words.toString();
}

// For links to pages: a link carries no token, so where the tab has one the page is asked for and shown from here.
export async function followWithToken(event) {
  if (!token.get()) return;
  event.preventDefault();
  const tab = window.open('', '_blank');
  const [path, anchor] = event.currentTarget.getAttribute('href').split('#');
  const reply = await fetch(path, { headers: bearer(), cache: 'no-store' });
  const url = URL.createObjectURL(new Blob([await reply.text()], { type: reply.headers.get('Content-Type') }));
  (tab || window).location = anchor ? `${url}#${anchor}` : url;
}

const at = (run, rest = '') => `/api/v1/runs/${encodeURIComponent(run)}${rest}`;
const bearer = () => (token.get() ? { Authorization: `Bearer ${token.get()}` } : {});

export const api = {
  status: () => ask('/api/v1/status'),
  catalogue: () => ask('/api/v1/catalogue'),
  runs: () => ask('/api/v1/runs').then((r) => r.runs),
  run: (run) => ask(at(run)),
  alerts: (run) => ask(at(run, '/alerts')).then((r) => r.alerts),
  actions: (run) => ask(at(run, '/actions')).then((r) => r.actions),
  series: (run, signal, more = {}) => ask(at(run, `/series?${query({ signal, ...more })}`)).then((r) => r.points),
  step: (run, step, signal) => ask(at(run, `/step/${step}?${query({ signal })}`)),
  control: () => ask('/api/v1/control'),
  act: (run, body) => ask(at(run, '/actions'), {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
  }),
};
