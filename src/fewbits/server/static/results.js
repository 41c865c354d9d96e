// The list of hits, and messages shown instead of hits.

import { go } from "./address.js";
import { excerpt, heading, shortFacts } from "./documents.js";
import { clickVerb, el, number, show } from "./dom.js";
import { showExplanation } from "./explain.js";

// `order` is "words" or "bits", `choose` changes it; `more` loads hits beyond those shown, at most `most`.
export function showHits(place, { answer, source, info, map, filter, order, choose, label, most, more }) {
  const words = new Set(answer.words);
  const list = el("ol", { class: "hits" });
  const append = (hits) => {
    const before = list.children.length;
    list.append(...hits.map((hit, at) => hitCard(hit, { rank: before + at + 1, source, words, bits: answer.bits, order, info, map, filter })));
  };
  append(answer.hits);
  show(
    place,
    source.document ? similarHead(source.document, info) : orderBar(order, choose),
    answer.unknown_words.length ? el("p", { class: "unknown quiet" }, "Unknown words: ", el("b", {}, answer.unknown_words.join(", "))) : null,
    answer.hits.length ? [list, foot({ list, append, most, more })] : noHits(label, filter),
  );
}

// Buttons to order the hits by shared words or by bits only.
function orderBar(order, choose) {
  const choice = (name, text, title) =>
    el("button", { type: "button", class: "choice", title, "aria-pressed": String(order === name), onclick: () => choose(name) }, text);
  return el(
    "p",
    { class: "order quiet" },
    "Order by",
    choice("words", "shared words", "The bits select candidates; those that share the most words with your query come first"),
    choice("bits", "bits only", "The documents whose codes match in the most bits come first, whatever their words"),
  );
}

// The number of hits shown, and a button to load more.
function foot({ list, append, most, more }) {
  const count = el("span", { class: "quiet" });
  const button = el("button", { type: "button", class: "button more", onclick: loadMore }, "More");
  const failure = el("div", {});
  let isAll = false;
  update();
  return el("div", { class: "foot" }, el("p", {}, count, button), failure);

  function update() {
    const shown = list.children.length;
    count.textContent = shown === 1 ? "1 hit shown" : `${number(shown)} hits shown`;
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

const unfilter = (filter) => el("p", {}, el("button", { type: "button", class: "button", onclick: () => filter("") }, "Remove the filter"));

function noHits(label, filter) {
  return el(
    "div",
    { class: "note" },
    el("h2", {}, "No hits"),
    label
      ? [el("p", {}, `Only documents with the label “${label}” were searched. There may be hits without this filter.`), unfilter(filter)]
      : el("p", {}, "Use different or additional words."),
  );
}

function similarHead(document_, info) {
  return el(
    "div",
    { class: "like" },
    el("p", { class: "quiet" }, "More like this"),
    el("h2", {}, heading(document_)),
    el("p", { class: "text" }, document_.text.trim() ? excerpt(document_) : "(no text)"),
    el("p", { class: "labels" }, shortFacts(document_)),
    el("p", { class: "quiet" }, `The documents below match in the most of the ${info.bits} bits. Open one to see why.`),
  );
}

function hitCard(hit, { rank, source, words, bits, order, info, map, filter }) {
  const why = el("div", { class: "why", hidden: true });
  const name = el("span", { class: "name" });
  const text = el("p", { class: "text" });
  const mark = (words) => {
    show(name, heading(hit, words));
    show(text, excerpt(hit, words));
  };
  mark(words);
  const head = el("button", { type: "button", class: "hit-head", "aria-expanded": "false" }, name, closeness(hit, bits, order));
  const card = el(
    "li",
    { class: "hit", onpointerenter: () => map.point(hit.id), onpointerleave: () => map.point(null) },
    head,
    text,
    el(
      "p",
      { class: "labels" },
      hit.labels.map((label) =>
        el("button", { type: "button", class: "chip", title: `Only documents with the label ${label}`, onclick: () => filter(label) }, label),
      ),
      shortFacts(hit),
      el("button", { type: "button", class: "link why-link", onclick: () => head.click() }, "Why this?"),
      el("button", { type: "button", class: "link", onclick: () => go({ view: "like", id: hit.id }) }, "More like this"),
    ),
    why,
  );
  head.addEventListener("focus", () => map.point(hit.id));
  head.addEventListener("click", () => {
    const open = why.hidden;
    why.hidden = !open;
    head.setAttribute("aria-expanded", String(open));
    card.toggleAttribute("data-open", open);
    if (open && !why.childNodes.length) showExplanation(why, { hit, rank, order, source, info, onWords: mark });
  });
  return card;
}

// The bar shows the value by which hits are ordered, so bars never get longer down the list.
function closeness(hit, bits, order) {
  const matching = bits - hit.distance;
  const byBits = el("span", { class: "bits-alike" }, order === "bits" ? el("b", {}, String(matching)) : String(matching), ` of ${bits} bits match`);
  const title = `${hit.distance} of ${bits} bits differ`;
  // Half of the bits match by chance, so the bar starts there.
  if (order === "bits") return el("span", { class: "near", title }, meter(2 * (matching / bits - 0.5)), byBits);
  return el("span", { class: "near", title }, meter(hit.score), el("span", { class: "score" }, "words ", el("b", {}, hit.score.toFixed(2))), byBits);
}

function meter(fraction) {
  const bar = el("i", {});
  bar.style.width = `${Math.min(100, Math.max(0, Math.round(100 * fraction)))}%`;
  return el("span", { class: "meter", "aria-hidden": "true" }, bar);
}

export function showEmpty(place, { info, filter, suggestions = [], message = "" }) {
  const buttons = suggestions.map((text) =>
    el("button", { type: "button", class: "chip", onclick: () => go({ view: "search", query: text }) }, text),
  );
  show(
    place,
    message ? el("div", { class: "note" }, el("h2", {}, message), el("p", {}, "Choose another label or clear the field."), unfilter(filter)) : null,
    el(
      "div",
      { class: "note" },
      el("h1", {}, info.takes_text ? "Find documents by topic" : "Find similar documents"),
      el(
        "p",
        { class: "training" },
        `${number(info.documents)} documents are indexed. ${trainingSentence(info)} `,
        info.takes_text ? "Each bit stands for two groups of words and shows which of them a document is closer to. " : "",
        `The code of a document is its ${info.bits} bits.`,
      ),
      el(
        "p",
        {},
        info.takes_text
          ? "Your query is encoded in the same way. Documents with similar codes are the candidates, and those that share the most words with your query come first. Open a hit to see why it was found."
          : `Documents with similar codes are near each other on the map. ${clickVerb()} a point to see the documents most similar to it.`,
      ),
      buttons.length ? el("p", { class: "tries" }, el("span", { class: "quiet" }, "Try "), buttons) : null,
    ),
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
  show(
    place,
    el(
      "div",
      { class: "note", role: "status" },
      el("h2", {}, isUnknownQuery ? "None of these words is in the vocabulary" : sentence(facts.what)),
      el("p", {}, isUnknownQuery ? "They do not occur in enough documents. Continue typing or use other words." : next),
      !isUnknownQuery && facts.allowed && !next.includes(facts.allowed) ? el("p", {}, `Allowed: ${facts.allowed}.`) : null,
      isClientError ? null : el("p", {}, el("button", { type: "button", class: "button", onclick: retry }, "Try again")),
      isClientError || !facts.request_id ? null : el("p", { class: "quiet" }, `Request ${facts.request_id}`),
    ),
  );
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + ".";
