// Explains a hit: what the words and what the codes saw, and every bit, which can be muted or weighted.

import { go, withWeight } from "./address.js";
import { get, post } from "./api.js";
import { facts } from "./documents.js";
import { clickVerb, el, number, show } from "./dom.js";
import { percent, scoreParts, segment, showError } from "./results.js";
import { highlight } from "./text.js";

const MAX_MATCHING = 6;
const MAX_DIFFERING = 4;
const MAX_WORDS = 8;
const MAX_SHOWN = 50000; // characters of a text
const WEIGHTS = [
  [0, "muted"],
  [0.5, "half"],
  [1, "once"],
  [2, "double"],
  [5, "5 times"],
];

let areBitsOpen = false; // stays as it is for the next explanation
let focused = ""; // the weight that was changed last, to return to it when the hits are shown again

export async function showExplanation(place, reason) {
  const { hit, source, info } = reason;
  if (!info.takes_text && source.query === undefined) { // the bits of embeddings have no words
    show(place, details(hit, new Set()));
    return;
  }
  show(place, el("p", { class: "quiet" }, "Loading …"));
  const body = source.query === undefined ? { id: String(source.id) } : { query: source.query };
  try {
    const explanation = await post("/v1/explain", { hit: String(hit.id), ...body });
    show(place, sections(explanation, reason));
    if (focused) place.querySelector(`[data-weight="${focused}"]`)?.focus({ preventScroll: true });
  } catch (error) {
    showError(place, error, () => showExplanation(place, reason));
  }
}

function sections(explanation, reason) {
  const { hit, state } = reason;
  const shared = new Set([...explanation.words, ...explanation.shared_words].map((word) => word.word.toLowerCase()));
  const parts = scoreParts(hit, reason);
  const isText = state.view === "search";
  return [
    el("p", { class: "lead" }, scoreSentence(hit, parts, reason)),
    el(
      "div",
      { class: "parts" },
      isText && hit.lexical !== null ? wordsPart(explanation, hit, parts) : null,
      codesPart(explanation, hit, parts, reason),
    ),
    explanation.bits.length ? bitsSection(explanation.bits, reason) : null,
    details(hit, shared),
  ];
}

function scoreSentence(hit, parts, { rank, state }) {
  const place = [el("b", {}, `Rank ${number(rank)}`), state.sort ? ` by ${state.sort.replace(/^-/, "")}` : ""];
  const score = el("b", {}, hit.score.toFixed(2));
  if (hit.lexical === null) return [place, ": the score ", score, " is the share of the bits that agree, each weighted by the query's confidence in it."];
  if (state.rank === "words") return [place, ": the score ", score, " is its BM25 score relative to the best hit."];
  const words = parts.words.toFixed(2);
  const codes = Math.max(0, hit.score.toFixed(2) - words).toFixed(2); // so that the rounded parts have the rounded sum
  return [place, ": the score is ", score, ": ", el("span", { class: "key words" }, `${words} from words`), " and ", el("span", { class: "key codes" }, `${codes} from codes`), "."];
}

function wordsPart(explanation, hit, parts) {
  const words = explanation.words.slice(0, MAX_WORDS);
  return el(
    "section",
    { class: "part words" },
    el("h2", {}, "Words"),
    words.length
      ? [
          el("p", {}, hit.lexical === 1 ? "No other document matches your words better." : `Your words match it ${percent(hit.lexical)} as well as the best hit.`),
          bars(words, words[0].weight, (word) => `${percent(word.weight)} of the match`),
        ]
      : el("p", {}, "None of your words occurs in this document."),
    explanation.words.length > MAX_WORDS ? el("p", { class: "quiet" }, `and ${number(explanation.words.length - MAX_WORDS)} more`) : null,
    el("span", { class: "meter", "aria-hidden": "true" }, segment("words", parts.words)),
  );
}

function codesPart(explanation, hit, parts, { bits, info, source }) {
  const name = source.query === undefined ? "the first document" : "your query";
  if (!explanation.bits.length) return el("section", { class: "part codes" }, el("h2", {}, "Codes"), el("p", {}, "Its code could not be compared with these words, so words alone decided."));
  const most = Math.max(...[...explanation.towards, ...explanation.away].map((word) => word.weight), 1e-9);
  return el(
    "section",
    { class: "part codes" },
    el("h2", {}, "Codes"),
    el(
      "p",
      {},
      `${number(bits - explanation.distance)} of ${bits} bits agree with ${name}; about ${Math.round(bits / 2)} would by chance.`,
      hit.same_label === null ? "" : ` Of hits at this distance, ${percent(hit.same_label)} have ${source.query === undefined ? "a label of the document" : "the label of the query"}.`,
    ),
    explanation.towards.length ? [el("h3", {}, "Words that make its code more similar"), bars(explanation.towards.slice(0, 6), most)] : null,
    explanation.away.length ? [el("h3", {}, "Words that make its code less similar"), el("p", { class: "away" }, explanation.away.slice(0, 5).map((word) => el("span", { class: "tag" }, word.word)))] : null,
    el("span", { class: "meter", "aria-hidden": "true" }, segment("codes", parts.codes)),
  );
}

function bars(words, most, title = () => null) {
  return el(
    "ul",
    { class: "word-bars" },
    words.map((word) => {
      const bar = el("i", { "aria-hidden": "true" });
      bar.style.width = `${Math.max(3, (100 * word.weight) / most)}%`;
      const said = title(word);
      return el("li", {}, el("span", { dir: "auto" }, word.word), el("span", { class: "track" }, bar), said ? el("span", { class: "quiet" }, said.replace(" of the match", "")) : null);
    }),
  );
}

function bitsSection(bits, reason) {
  const sourceName = reason.source.query === undefined ? "The first document" : "Your query";
  const byImportance = [...bits].sort((a, b) => b.importance - a.importance);
  const matching = byImportance.filter((bit) => bit.query === bit.hit).slice(0, MAX_MATCHING);
  const differing = byImportance.filter((bit) => bit.query !== bit.hit).slice(0, MAX_DIFFERING);
  const name = uniqueNames();
  const section = el(
    "details",
    { class: "fold the-bits", open: areBitsOpen },
    el("summary", {}, "The bits and their weights"),
    strip(bits, sourceName, reason),
    table("Bits that agree", matching, name, reason),
    differing.length ? table("Bits that differ", differing, name, reason) : el("p", { class: "quiet" }, "No bit differs."),
  );
  section.addEventListener("toggle", () => {
    areBitsOpen = section.open;
  });
  return section;
}

// Names the side of a bit by its first words that name no other bit of this list.
function uniqueNames() {
  const used = new Set();
  return (words) => {
    const free = words.filter((word) => !used.has(word)).slice(0, 3);
    for (const word of free) used.add(word);
    return free.join(", ") || words[0] || "no particular words";
  };
}

function table(title, bits, name, reason) {
  return el(
    "table",
    { class: "bit-table" },
    el("caption", {}, title),
    el("thead", {}, el("tr", {}, ["Bit", "This hit is closer to", "than to", "Counts"].map((text) => el("th", { scope: "col" }, text)))),
    el(
      "tbody",
      {},
      bits.map((bit) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, link(bit)),
          el("td", {}, name(side(bit, bit.hit))),
          el("td", { class: "quiet" }, name(side(bit, 1 - bit.hit))),
          el("td", {}, weightSelect(bit.bit, reason)),
        ),
      ),
    ),
  );
}

// Changing a weight reloads the hits and keeps this explanation open.
export function weightSelect(bit, { state, hit }) {
  const weight = state.weights[bit] ?? 1;
  const choices = WEIGHTS.some(([value]) => value === weight) ? WEIGHTS : [...WEIGHTS, [weight, `${weight} times`]];
  const field = el(
    "select",
    { "aria-label": `How much bit ${bit} counts`, "data-weight": `${bit} ${hit?.id ?? ""}`.replace(/["\\]/g, "") },
    choices.map(([value, text]) => el("option", { value: String(value), selected: value === weight }, text)),
  );
  field.addEventListener("change", () => {
    focused = field.dataset.weight;
    go(withWeight(state, bit, Number(field.value)));
  });
  return field;
}

// Two rows of cells, with one column per bit.
function strip(bits, sourceName, reason) {
  const hint = `${clickVerb() === "Tap" ? "Tap" : "Point at"} a column to see the words of its bit.`;
  const description = el("div", { class: "description", "aria-live": "polite" }, hint);
  const columns = bits.map((bit) => {
    const matches = bit.query === bit.hit;
    return el(
      "button",
      {
        type: "button",
        class: `column ${matches ? "alike" : "differs"}${reason.state.weights[bit.bit] === 0 ? " muted" : ""}`,
        "aria-label": `Bit ${bit.bit} ${matches ? "agrees" : "differs"}`,
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
    show(
      description,
      el("p", {}, link(bit), ": 1 means ", group(bit.raises), "; 0 means ", group(bit.lowers), ". ", values(bit, sourceName), " ", el("label", {}, "It counts ", weightSelect(bit.bit, { ...reason, hit: undefined }))),
    );
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

const link = (bit) => el("a", { href: `#bit=${bit.bit}` }, `Bit ${bit.bit}`);
const group = (list) => el("em", {}, list.slice(0, 4).join(", ") || "no particular words");
const side = (bit, value) => (value ? bit.raises : bit.lowers);

function values(bit, sourceName) {
  if (bit.query === bit.hit) return `Both are ${bit.hit}.`;
  return `${sourceName} is ${bit.query}, this hit is ${bit.hit}.`;
}

// Metadata, and the full text, which is loaded when it is opened.
function details(hit, shared) {
  const text = el("pre", { tabindex: "0", dir: "auto", "aria-label": `Full text of ${hit.id}` }, "Loading …");
  const full = el("details", { class: "fold full" }, el("summary", {}, "Full text"), text);
  full.addEventListener("toggle", async () => {
    if (!full.open || full.dataset.loaded) return;
    full.dataset.loaded = "true";
    try {
      const document_ = await get(`/v1/document?id=${encodeURIComponent(hit.id)}`);
      show(text, highlight(document_.text.slice(0, MAX_SHOWN), shared));
    } catch (error) {
      delete full.dataset.loaded;
      show(text, error.message);
    }
  });
  return [
    facts(hit),
    full,
    el("p", { class: "onward" }, el("button", { type: "button", class: "button", onclick: () => go({ view: "like", id: hit.id }) }, "More like this")),
  ];
}
