// The page: reads the address, asks the service, shows the answer.

import { follow, go, read } from "./address.js";
import { get, post } from "./api.js";
import { showBit, showBits } from "./bits.js";
import { number } from "./dom.js";
import { startKeys } from "./keys.js";
import { CorpusMap } from "./map.js";
import { showEmpty, showError, showHits } from "./results.js";
import { startTheme } from "./theme.js";
import { opening } from "./words.js";

const HITS = 20;
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
  map.load();
  render();
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

async function renderHits(state, signal) {
  const areAllKnown = Object.keys(info.labels).length < LABELS;
  if (state.label && areAllKnown && !Object.hasOwn(info.labels, state.label)) {
    map.light([]);
    return showEmpty(results, { info, message: `No document has the label “${state.label}”.` });
  }
  const wanted = { k: Math.min(HITS, Math.max(1, info.documents - 1)), labels: state.label ? [state.label] : [] };
  if (state.view === "like") {
    const [document_, answer] = await Promise.all([
      get(`/v1/document?id=${encodeURIComponent(state.id)}`, signal),
      post("/v1/similar", { id: state.id, ...wanted }, signal),
    ]);
    const cause = { id: state.id, document: document_ };
    showHits(results, { answer, cause, info, map, filter });
    return map.light(answer.hits, state.id);
  }
  if (!state.query || !info.takes_text) {
    map.light([]);
    showEmpty(results, { info });
    if (info.takes_text) showEmpty(results, { info, examples: await someOpenings(signal) });
    return;
  }
  const rescore = state.by === "bits" ? "none" : "words";
  const answer = await post("/v1/search", { query: state.query, rescore, ...wanted }, signal);
  const order = { by: state.by, choose: (by) => go({ ...state, by }) };
  showHits(results, { answer, cause: { query: state.query }, info, map, filter, order });
  return map.light(answer.hits);
}

// Queries to begin with: how some documents from all over the map begin.
async function someOpenings(signal) {
  const ids = await map.ids();
  const chosen = Array.from({ length: 9 }, (_, step) => ids[Math.floor(((step + 0.5) * ids.length) / 9)]);
  const found = await Promise.all(
    [...new Set(chosen)].map((id) => get(`/v1/document?id=${encodeURIComponent(id)}`, signal).catch(() => null)),
  );
  if (signal.aborted) throw new DOMException("given up", "AbortError");
  return found.map((one) => one && opening(one.text)).filter(Boolean).slice(0, 5);
}

function filter(name) {
  label.value = name;
  typed(0);
}

start();
