// The page: reads its state from the URL, sends requests and shows the responses.

import { go, read, replace } from "./address.js";
import { ServiceError, get, post } from "./api.js";
import { showBit, showBits } from "./bits.js";
import { narrow, number } from "./dom.js";
import { showFacets } from "./filters.js";
import { startKeys } from "./keys.js";
import { CorpusMap } from "./map.js";
import { showError, showHits, showStart, showSuggestion } from "./results.js";
import { startTheme } from "./theme.js";

const PAGE_SIZE = 20; // hits shown first, and added by each click on More
const DEBOUNCE_MS = 140; // after the last letter

const $ = (id) => document.getElementById(id);
const [query, results, facets] = [$("query"), $("results"), $("facets")];
const map = new CorpusMap($("map-panel"), (id) => go({ view: "like", id }));
let info = null;
let examples = null;
let pending = null; // aborts the current request when a new one starts
let timer = 0;

async function start() {
  startTheme($("theme"), () => map.draw());
  startKeys({ query, results, leave });
  addEventListener("hashchange", render);
  $("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the fragment is the state of the page
    query.focus();
  });
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    if (narrow.matches) query.blur(); // hides the keyboard of a phone and shows the beginning of the query
    onInput(0);
  });
  query.addEventListener("input", () => onInput(DEBOUNCE_MS));
  try {
    info = await get("/v1/info");
  } catch (error) {
    showError(results, error, start);
    return;
  }
  $("corpus").textContent = `${info.name} · ${number(info.documents)} documents, ${info.bits} bits each`;
  document.title = `${info.name} · fewbits`;
  $("to-bits").hidden = !info.takes_text;
  $("search").hidden = !info.searches_text;
  foldMap();
  narrow.addEventListener("change", foldMap);
  map.load();
  render();
}

// On narrow screens the map is folded below the hits, except for embeddings, where there is no text search.
function foldMap() {
  $("map-fold").open = !narrow.matches || !info.searches_text;
}

function onInput(pause) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const before = read();
    const text = query.value.trim();
    if (before.view !== "search" && !text) return;
    const { label = "", where = [], sort = "", weights = {}, rank = "hybrid" } = before;
    const state = { view: "search", query: text, rank, label, where, sort, weights };
    if (before.view === "search") {
      replace(state);
      render();
    } else go(state);
  }, pause);
}

function leave() {
  if (read().view !== "search") go({ view: "search", query: query.value.trim() });
  else if (query.value) {
    query.value = "";
    onInput(0);
  }
}

async function render() {
  if (!info) return;
  clearTimeout(timer);
  const state = read();
  pending?.abort();
  pending = new AbortController();
  const { signal } = pending;
  const isBits = state.view === "bit" || state.view === "bits";
  $("columns").hidden = isBits;
  $("bit-view").hidden = !isBits;
  if (state.view === "search" && document.activeElement !== query) query.value = state.query;
  if (state.view === "like") query.value = "";
  results.setAttribute("aria-busy", "true");
  const focused = document.activeElement?.dataset?.key ?? document.activeElement?.id;
  try {
    if (state.view === "bits") showBits($("bit-view"), (await get("/v1/bits", signal)).bits, info);
    else if (state.view === "bit" && !(state.bit >= 0 && state.bit < info.bits)) throw noSuchBit();
    else if (state.view === "bit") showBit($("bit-view"), await get(`/v1/bits/${state.bit}?k=6`, signal), info);
    else await renderHits(state, signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    showFacets(facets, { facets: [], state: { label: "", where: [] } });
    map.highlight([]);
    const { suggested } = showError(isBits ? $("bit-view") : results, error, render);
    say(error.message);
    if (state.view === "search" && error.status === 422) suggest(state.query, suggested, signal);
  }
  results.removeAttribute("aria-busy");
  if (focused && document.activeElement === document.body) (document.querySelector(`[data-key="${CSS.escape(focused)}"]`) ?? $(focused))?.focus();
  if (isBits) scrollTo(0, 0);
}

const noSuchBit = () => new ServiceError({ what: "there is no such bit", next: `Choose a bit from 0 to ${info.bits - 1}.` }, 404);

// For screen readers, which would otherwise read all hits after every letter.
function say(text) {
  $("status").textContent = text;
}

async function renderHits(state, signal) {
  const isLike = state.view === "like";
  if (!isLike && (!state.query || !info.searches_text)) {
    map.highlight([]);
    showFacets(facets, { facets: [], state });
    showStart(results, { info, examples: examples ?? [], regions: map.regions(), state });
    if (examples === null && info.searches_text) {
      await map.loaded;
      examples = (await get("/v1/examples", signal)).examples;
      showStart(results, { info, examples, regions: map.regions(), state });
    }
    say("");
    return;
  }
  const most = Math.max(1, Math.min(info.most_hits, info.documents - (isLike ? 1 : 0)));
  const options = { labels: state.label ? [state.label] : [], where: state.where, bit_weights: state.weights, ...(state.sort ? { sort: state.sort } : {}) };
  const fetchHits = (k, withFacets) =>
    isLike
      ? post("/v1/similar", { id: state.id, k, facets: withFacets, ...options }, signal)
      : post("/v1/search", { query: state.query, rank: state.rank, k, facets: withFacets, ...options }, signal);
  const [answer, document_] = await Promise.all([
    fetchHits(Math.min(PAGE_SIZE, most), true),
    isLike ? get(`/v1/document?id=${encodeURIComponent(state.id)}`, signal) : null,
  ]);
  const more = async (shown) => {
    const { hits } = await fetchHits(Math.min(shown + PAGE_SIZE, most), false);
    map.highlightMore(hits);
    return hits;
  };
  const source = isLike ? { id: state.id, document: document_ } : { query: state.query };
  const { suggested } = showHits(results, { answer, source, info, map, state, most, more });
  showFacets(facets, { facets: answer.facets, state, labels: info.labels });
  map.highlight(answer.hits, isLike ? state.id : null);
  say(`${number(answer.hits.length)} of ${number(answer.total)} hits shown`);
  if (!isLike) suggest(state.query, suggested, signal);
}

// Shows words that no document has, and a corrected query, when they are known.
async function suggest(text, place, signal) {
  const found = await get(`/v1/suggest?query=${encodeURIComponent(text)}`, signal).catch(() => null);
  if (found && !signal.aborted) showSuggestion(place, found);
}

start();
