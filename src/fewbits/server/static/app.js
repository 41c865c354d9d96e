// The page: reads the address, asks the service, shows the answer.

import { follow, go, read } from "./address.js";
import { ServiceError, get, post } from "./api.js";
import { showBit, showBits } from "./bits.js";
import { number } from "./dom.js";
import { startKeys } from "./keys.js";
import { CorpusMap } from "./map.js";
import { showEmpty, showError, showHits } from "./results.js";
import { narrow } from "./screen.js";
import { startTheme } from "./theme.js";
import { suggestion } from "./words.js";

const HITS = 20; // at first, and with each press of More
const LOOKED_AT = 9; // documents whose titles may be suggested
const SUGGESTED = 5;
const LABELS = 1000; // so many are told; there may be more
const PAUSE = 140; // milliseconds without a letter before a search

const $ = (id) => document.getElementById(id);
const [query, label, results] = [$("query"), $("label"), $("results")];
const map = new CorpusMap($("map-panel"), (id) => go({ view: "like", id, label: label.value.trim() }));
let info = null;
let pending = null; // of what is being asked for: given up when something else is
let timer = 0;

async function start() {
  startTheme($("theme"), () => map.draw());
  startKeys({ query, results, leave });
  addEventListener("hashchange", render);
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    if (narrow.matches) query.blur(); // the keyboard of a phone goes, and the query is seen from its beginning
    typed(0);
  });
  query.addEventListener("input", () => typed(PAUSE));
  label.addEventListener("input", () => typed(PAUSE));
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

// Where there is no room beside the hits, the map is below them; without words to search for it is the only way in.
function foldMap() {
  $("map-fold").open = !narrow.matches || !info.takes_text;
}

function typed(pause) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const before = read();
    const text = query.value.trim();
    const isLike = before.view === "like" && !text;
    const state = isLike ? { ...before, label: label.value.trim() } : { view: "search", query: text, label: label.value.trim(), by: before.by };
    if (before.view === "bit" || before.view === "bits" || (before.view === "like" && !isLike)) go(state);
    else {
      follow(state);
      render();
    }
  }, pause);
}

function leave() {
  if (read().view !== "search") go({ view: "search", query: query.value.trim(), label: label.value.trim() });
  else if (query.value) {
    query.value = "";
    typed(0);
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
    map.light([]);
    showError(isBits ? $("bit-view") : results, error, render);
  }
  results.removeAttribute("aria-busy");
  if (isBits) scrollTo(0, 0);
}

const noSuchBit = () => new ServiceError({ what: "there is no such bit", next: `Choose a bit from 0 to ${info.bits - 1}.` }, 404);

async function renderHits(state, signal) {
  const areAllKnown = Object.keys(info.labels).length < LABELS;
  if (state.label && areAllKnown && !Object.hasOwn(info.labels, state.label)) {
    map.light([]);
    return showEmpty(results, { info, filter, message: `No document has the label “${state.label}”.` });
  }
  const isLike = state.view === "like";
  if (!isLike && (!state.query || !info.takes_text)) {
    map.light([]);
    showEmpty(results, { info });
    if (info.takes_text) showEmpty(results, { info, examples: await someSuggestions(signal) });
    return;
  }
  const most = Math.max(1, Math.min(info.most_hits, info.documents - (isLike ? 1 : 0)));
  const order = isLike ? "bits" : state.by;
  const labels = state.label ? [state.label] : [];
  const ask = (k) =>
    isLike
      ? post("/v1/similar", { id: state.id, k, labels }, signal)
      : post("/v1/search", { query: state.query, rescore: order === "bits" ? "none" : "words", k, labels }, signal);
  const [answer, document_] = await Promise.all([
    ask(Math.min(HITS, most)),
    isLike ? get(`/v1/document?id=${encodeURIComponent(state.id)}`, signal) : null,
  ]);
  const more = async (shown) => {
    const { hits } = await ask(Math.min(shown + HITS, most));
    map.lightMore(hits);
    return hits;
  };
  const cause = isLike ? { id: state.id, document: document_ } : { query: state.query };
  const choose = (by) => go({ ...state, by });
  showHits(results, { answer, cause, info, map, filter, order, choose, label: state.label, most, more });
  map.light(answer.hits, isLike ? state.id : null);
}

// Queries to begin with, from documents all over the map.
async function someSuggestions(signal) {
  const ids = await map.ids();
  const chosen = Array.from({ length: LOOKED_AT }, (_, step) => ids[Math.floor(((step + 0.5) * ids.length) / LOOKED_AT)]);
  const found = await Promise.all(
    [...new Set(chosen)].map((id) => get(`/v1/document?id=${encodeURIComponent(id)}`, signal).catch(() => null)),
  );
  if (signal.aborted) throw new DOMException("given up", "AbortError");
  const suggested = found.map((one) => one && suggestion(one.text)).filter(Boolean);
  return [...new Set(suggested)].slice(0, SUGGESTED);
}

function filter(name) {
  label.value = name;
  typed(0);
}

start();
