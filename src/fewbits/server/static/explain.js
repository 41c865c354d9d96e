// Explains a hit: shared words, its rank, and the bits that match and differ.

import { go } from "./address.js";
import { post } from "./api.js";
import { facts } from "./documents.js";
import { clickVerb, el, narrow, number, show } from "./dom.js";
import { showError } from "./results.js";
import { highlight } from "./text.js";

const MAX_MATCHING = 4;
const MAX_DIFFERING = 3;
const MAX_WORDS = 12;

export async function showExplanation(place, reason) {
  const { hit, source, info, onWords } = reason;
  if (!info.takes_text) {
    show(place, details(hit, new Set()));
    return;
  }
  show(place, el("p", { class: "quiet" }, "Loading …"));
  const body = source.query === undefined ? { id: String(source.id) } : { query: source.query };
  try {
    const explanation = await post("/v1/explain", { hit: String(hit.id), ...body });
    const shared = new Set(explanation.shared_words.map((word) => word.word));
    onWords(shared);
    show(place, sections(explanation, shared, reason));
  } catch (error) {
    showError(place, error, () => showExplanation(place, reason));
  }
}

function sections(explanation, shared, { hit, rank, order, source }) {
  const sourceName = source.query === undefined ? "The first document" : "Your query";
  return [sharedWords(explanation, order), rankSentence(explanation, { hit, rank, order }), bitsSection(explanation.bits, sourceName), details(hit, shared)];
}

function sharedWords(explanation, order) {
  if (!explanation.shared_words.length) return el("p", { class: "shared" }, "No shared words.");
  const most = explanation.shared_words[0].weight || 1;
  return el(
    "p",
    { class: "shared" },
    el("span", { class: "quiet" }, explanation.shared_words.length === 1 ? "Shared word " : "Shared words "),
    explanation.shared_words.slice(0, MAX_WORDS).map((word) => {
      const title = `adds ${word.weight.toFixed(2)} to ${order === "words" ? "the score" : "the cosine similarity"}`;
      const mark = el("mark", { title }, word.word);
      mark.style.setProperty("--strength", String(0.35 + (0.65 * word.weight) / most));
      return mark;
    }),
  );
}

function rankSentence(explanation, { hit, rank, order }) {
  const length = explanation.bits.length;
  const matching = `${length - explanation.distance} of ${length} bits match`;
  const chance = `about ${Math.round(length / 2)} would match by chance`;
  const place = el("b", {}, `Rank ${number(rank)}`);
  if (order === "bits") return el("p", { class: "lead" }, place, `: ${matching} (${chance}). Hits are ordered by bits only.`);
  if (!explanation.shared_words.length) {
    return el("p", { class: "lead" }, place, `, after all hits that share a word with your query: ${matching} (${chance}).`);
  }
  return el(
    "p",
    { class: "lead" },
    place,
    ": hits are ordered by shared words, which give a score of ",
    el("b", {}, hit.score.toFixed(2)),
    `. The bits only selected the candidates: ${matching}.`,
  );
}

// Folded on narrow screens, where the section is long.
function bitsSection(bits, sourceName) {
  const byImportance = [...bits].sort((a, b) => b.importance - a.importance);
  const matching = byImportance.filter((bit) => bit.query === bit.hit);
  const differing = byImportance.filter((bit) => bit.query !== bit.hit);
  return el(
    "details",
    { class: "fold the-bits", open: !narrow.matches },
    el("summary", {}, "The bits"),
    strip(bits, sourceName),
    reasons("Matching bits: both are", matching.slice(0, MAX_MATCHING), (bit) => matchReason(bit, sourceName)),
    differing.length
      ? reasons("Differing bits", differing.slice(0, MAX_DIFFERING), (bit) => differenceReason(bit, sourceName))
      : el("p", { class: "quiet" }, "No bit differs."),
  );
}

const reasons = (title, bits, reason) => (bits.length ? el("div", { class: "reasons" }, el("h3", {}, title), bits.map(reason)) : null);

// Two rows of cells, with one column per bit.
function strip(bits, sourceName) {
  const hint = `${clickVerb() === "Tap" ? "Tap" : "Point at"} a column to see the words of its bit.`;
  const description = el("p", { class: "description", "aria-live": "polite" }, hint);
  const columns = bits.map((bit) => {
    const matches = bit.query === bit.hit;
    return el(
      "button",
      {
        type: "button",
        class: `column ${matches ? "alike" : "differs"}`,
        "aria-label": `Bit ${bit.bit} ${matches ? "matches" : "differs"}`,
        onpointerenter: () => describe(bit),
        onfocus: () => describe(bit),
        onclick: () => describe(bit),
      },
      el("i", { class: bit.query ? "one" : "zero" }),
      el("i", { class: bit.hit ? "one" : "zero" }),
    );
  });
  function describe(bit) {
    columns.forEach((column, place) => column.toggleAttribute("data-selected", bits[place] === bit));
    show(description, link(bit), ": 1 means ", group(bit.raises), "; 0 means ", group(bit.lowers), ". ", values(bit, sourceName));
  }
  return el(
    "div",
    { class: "strip-frame" },
    el(
      "div",
      { class: "strip-lines" },
      el("div", { class: "strip-names", "aria-hidden": "true" }, el("span", {}, sourceName), el("span", {}, "This hit")),
      el("div", { class: "strip" }, columns),
    ),
    el(
      "p",
      { class: "strip-key quiet" },
      el("span", {}, el("i", { class: "one" }), " bit is 1"),
      el("span", {}, el("i", { class: "zero" }), " bit is 0"),
      el("span", {}, el("i", { class: "other" }), " bits differ"),
    ),
    description,
  );
}

const link = (bit, kind = "") => el("a", { class: kind, href: `#bit=${bit.bit}` }, `Bit ${bit.bit}`);
const group = (list) => el("em", {}, list.slice(0, 4).join(", ") || "no particular words");
const side = (bit, value) => (value ? bit.raises : bit.lowers);

function values(bit, sourceName) {
  if (bit.query === bit.hit) return `Both are ${bit.hit}.`;
  return `${sourceName} is ${bit.query}, this hit is ${bit.hit}.`;
}

function matchReason(bit, sourceName) {
  return reason("alike", ["closer to ", group(side(bit, bit.hit)), " than to ", group(side(bit, 1 - bit.hit))], bit, sourceName);
}

function differenceReason(bit, sourceName) {
  return reason("differs", [`${sourceName.toLowerCase()}: `, group(side(bit, bit.query)), "; this hit: ", group(side(bit, bit.hit))], bit, sourceName);
}

function reason(kind, text, bit, sourceName) {
  return el(
    "div",
    { class: "reason" },
    el("span", { class: `swatch ${kind}` }),
    el("p", {}, text, ". ", decidingWords(bit, sourceName), " ", link(bit, "quiet")),
  );
}

function decidingWords(bit, sourceName) {
  const list = (words) => words.slice(0, 3).map((word) => `“${word.word}”`).join(", ");
  const [first, second] = [list(bit.query_words), list(bit.hit_words)];
  const parts = [first ? `${first} in ${sourceName.toLowerCase()}` : "", second ? `${second} in this hit` : ""].filter(Boolean);
  return el("span", { class: "quiet" }, parts.length ? `Mainly because of ${parts.join(" and ")}.` : "");
}

// Metadata and full text.
function details(hit, shared) {
  return [
    facts(hit),
    el(
      "details",
      { class: "fold full" },
      el("summary", {}, `Full text (${number(hit.text.length)} characters)`),
      el("pre", {}, highlight(hit.text.slice(0, 50000), shared)),
    ),
    el("p", { class: "onward" }, el("button", { type: "button", class: "button", onclick: () => go({ view: "like", id: hit.id }) }, "More like this")),
  ];
}
