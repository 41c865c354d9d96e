// The page: reads its state from the URL, sends requests and shows the responses.

import { go, read, replace } from "./address.js";
import { ServiceError, get, post } from "./api.js";
import { showBit, showBits } from "./bits.js";
import { narrow, number } from "./dom.js";
import { startKeys } from "./keys.js";
import { CorpusMap } from "./map.js";
import { showEmpty, showError, showHits } from "./results.js";
import { suggestion } from "./text.js";
import { startTheme } from "./theme.js";

const PAGE_SIZE = 20; // hits shown first, and added by each click on More
const SUGGESTION_DOCUMENTS = 9; // from which queries are suggested
const MAX_SUGGESTIONS = 5;
const MAX_LABELS = 1000; // in /v1/info; the engine may have more
const DEBOUNCE_MS = 140; // after the last letter

const $ = (id) => document.getElementById(id);
const [query, label, results] = [$("query"), $("label"), $("results")];
const map = new CorpusMap($("map-panel"), (id) => go({ view: "like", id, label: label.value.trim() }));
let info = null;
let pending = null; // aborts the current request when a new one starts
let timer = 0;

async function start() {
  startTheme($("theme"), () => map.draw());
  startKeys({ query, results, leave });
  addEventListener("hashchange", render);
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    if (narrow.matches) query.blur(); // hides the keyboard of a phone and shows the beginning of the query
    onInput(0);
  });
  query.addEventListener("input", () => onInput(DEBOUNCE_MS));
  label.addEventListener("input", () => onInput(DEBOUNCE_MS));
  try {
    info = await get("/v1/info");
  } catch (error) {
    showError(results, error, start);
    return;
  }
  $("corpus").textContent = `${info.name} · ${number(info.documents)} documents, ${info.bits} bits each`;
  document.title = `${info.name} · fewbits`;
  $("to-bits").hidden = !info.takes_text;
  label.hidden = !Object.keys(info.labels).length;
  for (const [name, count] of Object.entries(info.labels)) {
    const option = document.createElement("option");
    option.value = name;
    option.label = `${name} (${number(count)})`;
    $("labels").append(option);
  }
  foldMap();
  narrow.addEventListener("change", foldMap);
  map.load();
  render();
}

// On narrow screens the map is folded below the hits, except for embeddings, where there is no text search.
function foldMap() {
  $("map-fold").open = !narrow.matches || !info.takes_text;
}

function onInput(pause) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const before = read();
    const text = query.value.trim();
    const isLike = before.view === "like" && !text;
    const state = isLike ? { ...before, label: label.value.trim() } : { view: "search", query: text, label: label.value.trim(), by: before.by };
    if (before.view === "bit" || before.view === "bits" || (before.view === "like" && !isLike)) go(state);
    else {
      replace(state);
      render();
    }
  }, pause);
}

function leave() {
  if (read().view !== "search") go({ view: "search", query: query.value.trim(), label: label.value.trim() });
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
  if (!isBits && document.activeElement !== label) label.value = state.label;
  results.setAttribute("aria-busy", "true");
  try {
    if (state.view === "bits") showBits($("bit-view"), (await get("/v1/bits", signal)).bits, info);
    else if (state.view === "bit" && !(state.bit >= 0 && state.bit < info.bits)) throw noSuchBit();
    else if (state.view === "bit") showBit($("bit-view"), await get(`/v1/bits/${state.bit}?k=6`, signal), info);
    else await renderHits(state, signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    map.highlight([]);
    showError(isBits ? $("bit-view") : results, error, render);
  }
  results.removeAttribute("aria-busy");
  if (isBits) scrollTo(0, 0);
}

const noSuchBit = () => new ServiceError({ what: "there is no such bit", next: `Choose a bit from 0 to ${info.bits - 1}.` }, 404);

async function renderHits(state, signal) {
  const hasAllLabels = Object.keys(info.labels).length < MAX_LABELS;
  if (state.label && hasAllLabels && !Object.hasOwn(info.labels, state.label)) {
    map.highlight([]);
    return showEmpty(results, { info, filter: filterByLabel, message: `No document has the label “${state.label}”.` });
  }
  const isLike = state.view === "like";
  if (!isLike && (!state.query || !info.takes_text)) {
    map.highlight([]);
    showEmpty(results, { info });
    if (info.takes_text) showEmpty(results, { info, suggestions: await suggestQueries(signal) });
    return;
  }
  const most = Math.max(1, Math.min(info.most_hits, info.documents - (isLike ? 1 : 0)));
  const order = isLike ? "bits" : state.by;
  const labels = state.label ? [state.label] : [];
  const fetchHits = (k) =>
    isLike
      ? post("/v1/similar", { id: state.id, k, labels, fields: ["text"] }, signal)
      : post("/v1/search", { query: state.query, ...(order === "bits" ? { rerank: "none" } : { rank: "hybrid" }), k, labels, fields: ["text"] }, signal);
  const [response, document_] = await Promise.all([
    fetchHits(Math.min(PAGE_SIZE, most)),
    isLike ? get(`/v1/document?id=${encodeURIComponent(state.id)}`, signal) : null,
  ]);
  const more = async (shown) => {
    const { hits } = await fetchHits(Math.min(shown + PAGE_SIZE, most));
    map.highlightMore(hits);
    return hits;
  };
  const source = isLike ? { id: state.id, document: document_ } : { query: state.query };
  const choose = (by) => go({ ...state, by });
  showHits(results, { answer: response, source, info, map, filter: filterByLabel, order, choose, label: state.label, most, more });
  map.highlight(response.hits, isLike ? state.id : null);
}

// Suggests queries from documents spread over the whole map.
async function suggestQueries(signal) {
  const ids = await map.ids();
  const sample = Array.from({ length: SUGGESTION_DOCUMENTS }, (_, step) => ids[Math.floor(((step + 0.5) * ids.length) / SUGGESTION_DOCUMENTS)]);
  const documents = await Promise.all(
    [...new Set(sample)].map((id) => get(`/v1/document?id=${encodeURIComponent(id)}`, signal).catch(() => null)),
  );
  if (signal.aborted) throw new DOMException("aborted", "AbortError");
  const suggested = documents.map((one) => one && suggestion(one.text)).filter(Boolean);
  return [...new Set(suggested)].slice(0, MAX_SUGGESTIONS);
}

function filterByLabel(name) {
  label.value = name;
  onInput(0);
}

start();
