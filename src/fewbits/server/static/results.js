// Hits, and what to show where there are none.

import { go } from "./address.js";
import { el, number, show } from "./dom.js";
import { explainInto } from "./why.js";
import { marked, snippet } from "./words.js";

export function showHits(place, { answer, cause, info, map, filter, order }) {
  const words = new Set(answer.words);
  const hits = answer.hits.map((hit) => hitCard(hit, { cause, words, bits: answer.bits, info, map, filter }));
  show(place, cause.document ? likeHead(cause.document, info) : orderBar(order), hits.length ? el("ol", { class: "hits" }, hits) : nothing());
}

// What decides the order: words among the nearest codes, or codes alone.
function orderBar({ by, choose }) {
  const choice = (name, text, title) =>
    el("button", { type: "button", class: "choice", title, "aria-pressed": String(by === name), onclick: () => choose(name) }, text);
  return el(
    "p",
    { class: "order quiet" },
    "Order by",
    choice("words", "words in common", "Among the documents with the nearest answers, those that share your words come first"),
    choice("bits", "answers alone", "The documents with the most answers alike come first, whatever their words"),
  );
}

function nothing() {
  return el("div", { class: "note" }, el("h2", {}, "Nothing found"), el("p", {}, "No document passes the filter."));
}

function likeHead(document_, info) {
  return el(
    "div",
    { class: "like" },
    el("p", { class: "quiet" }, "More like this"),
    el("h2", {}, String(document_.id)),
    el("p", { class: "text" }, snippet(document_.text, new Set()) || "(no text)"),
    info.takes_text
      ? el("p", { class: "quiet" }, "Below: the documents whose answers to the ", String(info.bits), " questions are most like this one’s. Open one to see why.")
      : null,
  );
}

function hitCard(hit, { cause, words, bits, info, map, filter }) {
  const alike = bits - hit.distance;
  const why = el("div", { class: "why", hidden: true });
  const text = el("p", { class: "text" }, marked(snippet(hit.text, words), words));
  const head = el(
    "button",
    { type: "button", class: "hit-head", "aria-expanded": "false" },
    el("span", { class: "id" }, String(hit.id)),
    el(
      "span",
      { class: "near", title: `${hit.distance} of ${bits} bits differ` },
      meter(alike / bits),
      el("span", {}, el("b", {}, number(alike)), ` of ${bits} alike`),
    ),
  );
  const card = el(
    "li",
    { class: "hit", onpointerenter: () => map.point(hit.id), onpointerleave: () => map.point(null) },
    head,
    text,
    el(
      "p",
      { class: "labels" },
      hit.labels.map((name) =>
        el("button", { type: "button", class: "chip", title: `Only documents with the label ${name}`, onclick: () => filter(name) }, name),
      ),
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
    if (open && !why.childNodes.length) {
      explainInto(why, { hit, cause, info, found: (shared) => show(text, marked(snippet(hit.text, shared), shared)) });
    }
  });
  return card;
}

function meter(share) {
  const bar = el("i", {});
  // Half of all bits agree by chance: the bar begins there.
  bar.style.width = `${Math.max(0, Math.round(200 * (share - 0.5)))}%`;
  return el("span", { class: "meter", "aria-hidden": "true" }, bar);
}

export function showEmpty(place, { info, examples = [], message = "" }) {
  const tries = examples.map((text) =>
    el("button", { type: "button", class: "chip", onclick: () => go({ view: "search", query: text }) }, text),
  );
  show(
    place,
    message ? el("div", { class: "note" }, el("h2", {}, message), el("p", {}, "Choose another label, or clear the field.")) : null,
    el(
      "div",
      { class: "note" },
      el("h1", {}, info.takes_text ? "Find documents by what they are about" : "Find documents that are alike"),
      el(
        "p",
        {},
        `The ${number(info.documents)} documents here were read once, and ${info.bits} either-or questions were learnt from them, `
          + "such as “rather about this group of words, or about that one?”. Each document is kept as its "
          + `${info.bits} answers: ${info.bits} bits.`,
      ),
      el(
        "p",
        {},
        info.takes_text
          ? "Your words get answers too, and the documents that answer alike are found. Open any result to see which answers agree, and why."
          : "Documents that answer alike are near each other on the map. Click on a point to see the documents most like it.",
      ),
      tries.length ? el("p", { class: "tries" }, el("span", { class: "quiet" }, "Try "), tries) : null,
    ),
  );
}

export function showError(place, error, again) {
  const facts = error.facts ?? { what: "this page failed", next: "Load it again." };
  const unknown = facts.what === "the query says nothing to this engine";
  show(
    place,
    el(
      "div",
      { class: "note", role: "status" },
      el("h2", {}, unknown ? "None of these words is known here" : sentence(facts.what)),
      el("p", {}, unknown ? "No document uses them often enough. Go on typing, or use other words." : facts.next || "Try again."),
      unknown || (error.status >= 400 && error.status < 500)
        ? null
        : el("p", {}, el("button", { type: "button", class: "button", onclick: again }, "Try again")),
      unknown || !facts.request_id ? null : el("p", { class: "quiet" }, `Request ${facts.request_id}`),
    ),
  );
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + ".";
