// Which page, when to ask again, and whether the server answers.
import { askForToken } from './actions.js';
import { api } from './api.js';
import { el } from './format.js';
import { RunPage } from './run.js';
import { RunsPage } from './runs.js';

const EVERY_MS = 2000;
const content = document.getElementById('content');
let page = null, catalogue = null;
let beating = false, again = false, timer = 0;

// #/, #/run/NAME, #/compare/NAME/NAME...: names are percent-encoded.
async function open() {
  if (!catalogue) catalogue = await api.catalogue();
  const [, kind, ...names] = location.hash.split('/');
  const runs = names.filter(Boolean).map(decodeURIComponent);
  page = (kind === 'run' || kind === 'compare') && runs.length ? new RunPage(content, runs, catalogue) : new RunsPage(content);
  content.focus({ preventScroll: true });
}

function showHealth(text) {
  const badge = document.getElementById('health');
  badge.textContent = text === 'ok' ? 'server ok' : text;
  badge.className = `badge ${text === 'ok' ? 'good' : 'critical'}`;
}

// One at a time: of two that overlap both would ask for, and keep, the same points.
async function beat() {
  clearTimeout(timer);
  if (beating) {
    again = true;
    return;
  }
  beating = true;
  again = false;
  await round();
  beating = false;
  document.body.dataset.beats = String(+(document.body.dataset.beats || 0) + 1);
  timer = setTimeout(beat, again ? 0 : document.hidden ? 10 * EVERY_MS : EVERY_MS);
}

async function round() {
  const offline = document.getElementById('offline');
  let shown = null;
  try {
    if (!page) await open();
    shown = page;
    showHealth((await api.status()).health);
    await shown.refresh();
    offline.hidden = true;
  } catch (error) {
    if (shown && shown !== page) return;  // it was left meanwhile
    if (error.status === 404) {
      content.replaceChildren(el('h1', {}, 'Not found'), el('p', {}, error.message), el('p', {}, el('a', { href: '#/' }, 'All runs')));
    } else {
      offline.textContent = error.status === 401 ? 'This server needs a token: give one with the button at the top right.' : `${error.message}; trying again`;
      offline.hidden = false;
      if (error.status === undefined) console.error(error);
    }
  }
}

addEventListener('hashchange', () => {
  if (page) page.destroy();
  page = null;
  beat();
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) beat();
});
document.getElementById('control').addEventListener('click', () => askForToken().then(beat, beat));
beat();
