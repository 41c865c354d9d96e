// The list of hits, and messages shown instead of hits.

import { go, searchFor } from "./address.js";
import { excerpt, heading, hitHeading, shortFacts } from "./documents.js";
import { clickVerb, el, number, show } from "./dom.js";
import { showExplanation } from "./explain.js";
import { activeFilters, orderBar } from "./filters.js";
import { marked } from "./text.js";

const opened = { source: "", ids: new Set() }; // explanations that stay open when weights or filters change

// `more` loads hits beyond those shown, at most `most`.
export function showHits(place, { answer, source, info, map, state, most, more }) {
  const key = source.document ? `#${source.id}` : source.query;
  if (opened.source !== key) Object.assign(opened, { source: key, ids: new Set() });
  const list = el("ol", { class: "hits" });
  const context = { source, bits: answer.bits, info, map, state };
  const append = (hits) => {
    const before = list.children.length;
    list.append(...hits.map((hit, at) => hitCard(hit, { ...context, rank: before + at + 1 })));
  };
  append(answer.hits);
  const suggested = el("div", { id: "suggestion" });
  show(
    place,
    source.document ? similarHead(source.document, info) : el("h1", { class: "of-query" }, "Results for ", el("q", { dir: "auto" }, source.query)),
    suggested,
    answer.notes.map((note) => el("p", { class: "quiet" }, note)),
    activeFilters(state),
    answer.hits.length ? [el("div", { class: "bar" }, el("p", { class: "total" }, totalSentence(answer, state)), orderBar(state, info.fields)), list, foot({ list, append, most, more, total: answer.total })] : noHits(state),
  );
  return { suggested };
}

function totalSentence(answer, state) {
  const about = answer.total_is_exact ? "" : "about ";
  const documents = (count) => el("b", {}, count === 1 ? "1 document" : `${about}${number(count)} documents`);
  if (state.view === "like") return ["Most similar first, of ", documents(answer.total)];
  if (state.rank === "codes" || !answer.hits.some((hit) => hit.lexical > 0)) return [documents(answer.total), ", nearest codes first"];
  return [documents(answer.total), answer.total === 1 ? " has" : " have", " a word of your query", state.rank === "hybrid" && answer.hits.some((hit) => hit.semantic > 0) ? "; the codes add others about its topic" : ""];
}

// Words that no document has, and a corrected query.
export function showSuggestion(place, { unknown_words: unknown, suggestion }) {
  show(
    place,
    suggestion ? el("p", { class: "did-you-mean" }, "Did you mean ", el("button", { type: "button", class: "link strong", onclick: () => searchFor(suggestion) }, suggestion), "?") : null,
    unknown.length ? el("p", { class: "unknown quiet" }, "No document has ", unknown.flatMap((word, at) => [at ? ", " : "", el("b", { dir: "auto" }, word)]), ".") : null,
  );
}

// The number of hits shown, and a button to load more.
function foot({ list, append, most, more, total }) {
  const count = el("span", { class: "quiet" });
  const button = el("button", { type: "button", class: "button more", onclick: loadMore }, "More");
  const failure = el("div", {});
  let isAll = false;
  update();
  return el("div", { class: "foot" }, el("p", {}, count, button), failure);

  function update() {
    const shown = list.children.length;
    count.textContent = shown < total ? `${number(shown)} of ${number(total)} shown` : shown === 1 ? "1 hit shown" : `${number(shown)} hits shown`;
    button.hidden = isAll || shown >= most;
  }

  async function loadMore() {
    const shown = list.children.length;
    button.disabled = true;
    show(failure);
    try {
      const hits = await more(shown);
      isAll = hits.length <= shown;
      append(hits.slice(shown));
      update();
      // Keyboard users continue at the first new hit.
      if (!isAll) list.children[shown].querySelector(".hit-head").focus();
    } catch (error) {
      if (error.name !== "AbortError") showError(failure, error, loadMore);
    }
    button.disabled = false;
  }
}

const withoutFilters = (state) => el("p", {}, el("button", { type: "button", class: "button", onclick: () => go({ ...state, label: "", where: [] }) }, "Remove the filters"));

function noHits(state) {
  const isFiltered = state.label || state.where.length;
  return el(
    "div",
    { class: "note" },
    el("h2", {}, "No hits"),
    isFiltered
      ? [el("p", {}, "No document matches with these filters. Without them there may be hits."), withoutFilters(state)]
      : el("p", {}, "Use different or additional words."),
  );
}

function similarHead(document_, info) {
  return el(
    "div",
    { class: "like" },
    el("p", { class: "quiet" }, "More like this"),
    el("h1", {}, heading(document_)),
    el("p", { class: "text", dir: "auto" }, document_.text.trim() ? excerpt(document_) : "(no text)"),
    el("p", { class: "labels" }, document_.labels.map((label) => el("span", { class: "tag" }, label)), shortFacts(document_)),
    el("p", { class: "quiet" }, `The codes of the documents below are nearest to its code. Open one to see why.`),
  );
}

function hitCard(hit, context) {
  const { rank, map, state, info } = context;
  const why = el("div", { class: "why", hidden: true });
  const head = el("button", { type: "button", class: "hit-head", "aria-expanded": "false" }, el("span", { class: "name" }, hitHeading(hit)), closeness(hit, context));
  const isOfTopic = state.view === "search" && state.rank === "hybrid" && hit.lexical === 0 && !hit.title_marks.length && !hit.snippet_marks.length;
  const card = el(
    "li",
    { class: "hit", onpointerenter: () => map.point(hit.id), onpointerleave: () => map.point(null) },
    head,
    el("p", { class: "text", dir: "auto" }, marked(hit.snippet, hit.snippet_marks)),
    el(
      "p",
      { class: "labels" },
      isOfTopic ? el("span", { class: "tag topic" }, "related topic, other words") : null,
      hit.labels.map((label) =>
        el("button", { type: "button", class: "chip", title: `Only documents with the label ${label}`, onclick: () => go({ ...state, label }) }, label),
      ),
      shortFacts(hit),
    ),
    el(
      "p",
      { class: "actions" },
      el("button", { type: "button", class: "link why-link", onclick: () => head.click() }, "Why this?"),
      el("button", { type: "button", class: "link", onclick: () => go({ view: "like", id: hit.id, weights: state.weights }) }, "More like this"),
    ),
    why,
  );
  const setOpen = (open) => {
    why.hidden = !open;
    head.setAttribute("aria-expanded", String(open));
    card.toggleAttribute("data-open", open);
    if (open) opened.ids.add(String(hit.id));
    else opened.ids.delete(String(hit.id));
    if (open && !why.childNodes.length) showExplanation(why, { ...context, hit, rank, info });
  };
  head.addEventListener("focus", () => map.point(hit.id));
  head.addEventListener("click", () => setOpen(why.hidden));
  if (opened.ids.has(String(hit.id))) setOpen(true);
  return card;
}

// The parts of a score that words and codes contribute; codes contribute all of it where they alone decide.
export function scoreParts(hit, { state, info }) {
  if (hit.lexical === null) return { words: 0, codes: hit.score };
  if (state.rank === "words") return { words: hit.score, codes: 0 };
  const share = 1 / (1 + info.weight);
  return { words: hit.lexical * share, codes: hit.semantic * info.weight * share };
}

// The distance, and how likely it means the same label, where that was measured.
function likelihood(hit) {
  const differ = hit.distance === 1 ? "1 bit differs" : `${hit.distance} bits differ`;
  return hit.same_label === null ? differ : `${differ} · same label: ${percent(hit.same_label)}`;
}

function closeness(hit, { state, info, bits }) {
  const parts = scoreParts(hit, { state, info });
  const meter = el("span", { class: "meter", "aria-hidden": "true" }, Object.entries(parts).map(([name, value]) => segment(name, value)));
  return el(
    "span",
    { class: "near" },
    el("span", { class: "score", title: "Score: words and codes combined" }, meter, el("span", { class: "hidden" }, "score "), el("b", {}, hit.score.toFixed(2))),
    hit.distance < bits || hit.semantic !== 0 ? el("span", { class: "likelihood" }, likelihood(hit)) : null,
  );
}

export function segment(name, value) {
  const bar = el("i", { class: name });
  bar.style.width = `${Math.min(100, Math.max(0, 100 * value))}%`;
  return bar;
}

export const percent = (share) => (share > 0 && share < 0.01 ? "under 1%" : `${Math.round(100 * share)}%`);

const KINDS = {
  topic: ["A topic", "also finds documents on it in other words"],
  phrase: ["An exact phrase", "in quotes"],
  without: ["Without a word", "put a minus before it"],
  filter: ["Only some documents", "by a field and its value"],
  prefix: ["The beginning of a word", "followed by an asterisk"],
};

// The start page: what can be done here, with queries that this corpus answers.
export function showStart(place, { info, examples = [], regions = [], state }) {
  const name = el("span", { dir: "auto" }, info.name);
  const kinds = Object.keys(KINDS).filter((kind) => examples.some((one) => one.kind === kind));
  show(
    place,
    activeFilters(state),
    el(
      "div",
      { class: "start" },
      el("h1", {}, info.searches_text ? "What are you looking for in " : "Find similar documents in ", name, info.searches_text ? "?" : ""),
      el(
        "p",
        { class: "task" },
        info.searches_text
          ? `Type words, a phrase or a whole sentence: ${number(info.documents)} documents are searched as you type. Documents that contain your words, or are about the same topic, come first. Each hit explains why it was found.`
          : `${number(info.documents)} documents are near each other on the map if they are similar. ${clickVerb()} a point to see the documents most similar to it.`,
      ),
      kinds.length ? [el("h2", {}, "Try"), el("p", { class: "quiet" }, "The numbers count the documents that match."), el("dl", { class: "examples-of-queries" }, kinds.map((kind) => exampleRow(kind, examples)))] : null,
      regions.length && info.searches_text
        ? [el("h2", {}, "What these documents are about"), el("p", { class: "quiet" }, "Regions of the map, with their numbers of documents."), el("p", { class: "tries" }, regions.map((region) => queryButton(region.words.slice(0, 2).join(" "), region.documents)))]
        : null,
      el(
        "details",
        { class: "fold" },
        el("summary", {}, "How it works"),
        el("p", { class: "training" }, `${number(info.documents)} documents are indexed. ${trainingSentence(info)} ${howItWorks(info)}`),
      ),
    ),
  );
}

function exampleRow(kind, examples) {
  const [name, how] = KINDS[kind];
  return [
    el("dt", {}, name, el("span", { class: "quiet" }, how)),
    el("dd", {}, examples.filter((one) => one.kind === kind).map((one) => queryButton(one.query, one.total))),
  ];
}

const queryButton = (query, count) =>
  el("button", { type: "button", class: "chip query", onclick: () => searchFor(query) }, el("span", { dir: "auto" }, query), " ", el("span", { class: "quiet" }, number(count)));

function howItWorks(info) {
  if (!info.takes_text) return "Documents with similar codes are similar.";
  return (
    "Each bit separates two groups of words and shows which of them a text is closer to, so texts on the same topic agree in most bits. "
    + "A query is ranked by its words (BM25) and by its bits together; both parts of the score are shown with each hit, and you can ignore a bit or give it more weight."
  );
}

export const trainingSentence = (info) =>
  `The ${info.bits} bits were learned from ${
    info.documents_learnt_from === info.documents ? "these documents" : `${number(info.documents_learnt_from)} documents`
  }.`;

export function showError(place, error, retry) {
  const facts = error.facts ?? { what: "an error occurred on this page", next: "Reload the page." };
  const isUnknownQuery = facts.what === "the query has no known word";
  const isClientError = error.status >= 400 && error.status < 500; // repeating the request would not help
  const next = facts.next || (isClientError ? "" : "Try again.");
  const suggested = el("div", { id: "suggestion" });
  show(
    place,
    el(
      "div",
      { class: "note", role: "status" },
      el("h1", {}, isUnknownQuery ? "No document has these words" : sentence(facts.what)),
      suggested,
      el("p", {}, isUnknownQuery ? "Continue typing or use other words." : next),
      !isUnknownQuery && facts.allowed && !next.includes(facts.allowed) ? el("p", {}, `Allowed: ${facts.allowed}.`) : null,
      isClientError ? null : el("p", {}, el("button", { type: "button", class: "button", onclick: retry }, "Try again")),
      isClientError || !facts.request_id ? null : el("p", { class: "quiet" }, `Request ${facts.request_id}`),
    ),
  );
  return { suggested };
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + ".";
