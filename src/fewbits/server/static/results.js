// Hits, and what to show where there are none.

import { go } from "./address.js";
import { excerpt, heading, shortFacts } from "./documents.js";
import { el, number, show } from "./dom.js";
import { press } from "./screen.js";
import { explainInto } from "./why.js";

// `order` is "words" or "bits"; `choose` takes another one; `more` asks for so many hits.
export function showHits(place, { answer, cause, info, map, filter, order, choose, label, most, more }) {
  const words = new Set(answer.words);
  const list = el("ol", { class: "hits" });
  const append = (hits) => {
    const before = list.children.length;
    list.append(...hits.map((hit, at) => hitCard(hit, { rank: before + at + 1, cause, words, bits: answer.bits, order, info, map, filter })));
  };
  append(answer.hits);
  show(
    place,
    cause.document ? likeHead(cause.document, info) : orderBar(order, choose),
    answer.unknown_words.length ? el("p", { class: "unknown quiet" }, "Not known: ", el("b", {}, answer.unknown_words.join(", "))) : null,
    answer.hits.length ? [list, foot({ list, append, most, more })] : noHits(label, filter),
  );
}

// What decides the order: words among the candidates that the bits chose, or the bits alone.
function orderBar(order, choose) {
  const choice = (name, text, title) =>
    el("button", { type: "button", class: "choice", title, "aria-pressed": String(order === name), onclick: () => choose(name) }, text);
  return el(
    "p",
    { class: "order quiet" },
    "Order by",
    choice("words", "words in both", "The bits choose candidates; those that share most with your words come first"),
    choice("bits", "bits alone", "The documents with the most bits alike come first, whatever their words"),
  );
}

// How many hits there are, and a way to more of them.
function foot({ list, append, most, more }) {
  const count = el("span", { class: "quiet" });
  const button = el("button", { type: "button", class: "button more", onclick: grow }, "More");
  const trouble = el("div", {});
  let isAll = false;
  tell();
  return el("div", { class: "foot" }, el("p", {}, count, button), trouble);

  function tell() {
    const shown = list.children.length;
    count.textContent = shown === 1 ? "1 hit shown" : `${number(shown)} hits shown`;
    button.hidden = isAll || shown >= most;
  }

  async function grow() {
    const shown = list.children.length;
    button.disabled = true;
    show(trouble);
    try {
      const hits = await more(shown);
      isAll = hits.length <= shown;
      append(hits.slice(shown));
      tell();
      // Who pressed the button by key goes on from the first hit that is new.
      if (!isAll) list.children[shown].querySelector(".hit-head").focus();
    } catch (error) {
      if (error.name !== "AbortError") showError(trouble, error, grow);
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
      ? [el("p", {}, `Only documents with the label “${label}” were looked at. Without this filter there may be hits.`), unfilter(filter)]
      : el("p", {}, "Use other or more words."),
  );
}

function likeHead(document_, info) {
  return el(
    "div",
    { class: "like" },
    el("p", { class: "quiet" }, "More like this"),
    el("h2", {}, heading(document_)),
    el("p", { class: "text" }, document_.text.trim() ? excerpt(document_) : "(no text)"),
    el("p", { class: "labels" }, shortFacts(document_)),
    el("p", { class: "quiet" }, `Below: the documents with the most of the ${info.bits} bits alike. Open one to see why.`),
  );
}

function hitCard(hit, { rank, cause, words, bits, order, info, map, filter }) {
  const why = el("div", { class: "why", hidden: true });
  const name = el("span", { class: "name" });
  const text = el("p", { class: "text" });
  const mark = (marked) => {
    show(name, heading(hit, marked));
    show(text, excerpt(hit, marked));
  };
  mark(words);
  const head = el("button", { type: "button", class: "hit-head", "aria-expanded": "false" }, name, nearness(hit, bits, order));
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
    if (open && !why.childNodes.length) explainInto(why, { hit, rank, order, cause, info, found: mark });
  });
  return card;
}

// What the order goes by comes first, and the bar is of it, so that bars never grow down the list.
function nearness(hit, bits, order) {
  const alike = bits - hit.distance;
  const byBits = el("span", { class: "bits-alike" }, order === "bits" ? el("b", {}, String(alike)) : String(alike), ` of ${bits} bits alike`);
  const title = `${hit.distance} of ${bits} bits differ`;
  // Half of all bits are alike by chance: the bar begins there.
  if (order === "bits") return el("span", { class: "near", title }, meter(2 * (alike / bits - 0.5)), byBits);
  return el("span", { class: "near", title }, meter(hit.score), el("span", { class: "score" }, "words ", el("b", {}, hit.score.toFixed(2))), byBits);
}

function meter(share) {
  const bar = el("i", {});
  bar.style.width = `${Math.min(100, Math.max(0, Math.round(100 * share)))}%`;
  return el("span", { class: "meter", "aria-hidden": "true" }, bar);
}

export function showEmpty(place, { info, filter, examples = [], message = "" }) {
  const tries = examples.map((text) =>
    el("button", { type: "button", class: "chip", onclick: () => go({ view: "search", query: text }) }, text),
  );
  show(
    place,
    message ? el("div", { class: "note" }, el("h2", {}, message), el("p", {}, "Choose another label, or clear the field."), unfilter(filter)) : null,
    el(
      "div",
      { class: "note" },
      el("h1", {}, info.takes_text ? "Find documents by what they are about" : "Find documents that are alike"),
      el(
        "p",
        { class: "learnt" },
        `There are ${number(info.documents)} documents here. ${learntFrom(info)} `,
        info.takes_text ? "Each bit stands for two groups of words, and tells which of them a document is rather about. " : "",
        `A document is kept as its ${info.bits} bits.`,
      ),
      el(
        "p",
        {},
        info.takes_text
          ? "Your words get bits too. Documents with like bits are the candidates, and those that share most with your words come first. Open a hit to see why it is there."
          : `Documents with like bits are near each other on the map. ${press()} on a point to see the documents most like it.`,
      ),
      tries.length ? el("p", { class: "tries" }, el("span", { class: "quiet" }, "Try "), tries) : null,
    ),
  );
}

export const learntFrom = (info) =>
  `The ${info.bits} bits were learnt from ${
    info.documents_learnt_from === info.documents ? "them" : `${number(info.documents_learnt_from)} documents`
  }.`;

export function showError(place, error, again) {
  const facts = error.facts ?? { what: "this page failed", next: "Load it again." };
  const unknown = facts.what === "the query says nothing to this engine";
  const isTheirs = error.status >= 400 && error.status < 500; // asking again would not help
  const next = facts.next || (isTheirs ? "" : "Try again.");
  show(
    place,
    el(
      "div",
      { class: "note", role: "status" },
      el("h2", {}, unknown ? "None of these words is known here" : sentence(facts.what)),
      el("p", {}, unknown ? "No document uses them often enough. Go on typing, or use other words." : next),
      !unknown && facts.allowed && !next.includes(facts.allowed) ? el("p", {}, `Allowed: ${facts.allowed}.`) : null,
      isTheirs ? null : el("p", {}, el("button", { type: "button", class: "button", onclick: again }, "Try again")),
      isTheirs || !facts.request_id ? null : el("p", { class: "quiet" }, `Request ${facts.request_id}`),
    ),
  );
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + ".";
