// Why a document was found: words in both, what decided its place, and under it the bits that are alike and differ.

import { go } from "./address.js";
import { post } from "./api.js";
import { facts } from "./documents.js";
import { el, number, show } from "./dom.js";
import { showError } from "./results.js";
import { narrow, press } from "./screen.js";
import { marked } from "./words.js";

const SHOWN_ALIKE = 4;
const SHOWN_DIFFERING = 3;
const SHOWN_WORDS = 12;

export async function explainInto(place, reason) {
  const { hit, cause, info, found } = reason;
  if (!info.takes_text) {
    show(place, rest(hit, new Set()));
    return;
  }
  show(place, el("p", { class: "quiet" }, "Looking into it …"));
  const asked = cause.query === undefined ? { id: String(cause.id) } : { query: cause.query };
  try {
    const explained = await post("/v1/explain", { hit: String(hit.id), ...asked });
    const shared = new Set(explained.shared_words.map((word) => word.word));
    found(shared);
    show(place, story(explained, shared, reason));
  } catch (error) {
    showError(place, error, () => explainInto(place, reason));
  }
}

function story(explained, shared, { hit, rank, order, cause }) {
  const yours = cause.query === undefined ? "The first document" : "Your words";
  return [words(explained, order), placeOf(explained, { hit, rank, order }), theBits(explained.bits, yours), rest(hit, shared)];
}

function words(explained, order) {
  if (!explained.shared_words.length) return el("p", { class: "shared" }, "No word is in both.");
  const most = explained.shared_words[0].weight || 1;
  return el(
    "p",
    { class: "shared" },
    el("span", { class: "quiet" }, explained.shared_words.length === 1 ? "Word in both " : "Words in both "),
    explained.shared_words.slice(0, SHOWN_WORDS).map((word) => {
      const title = `adds ${word.weight.toFixed(2)} to ${order === "words" ? "the score" : "their likeness by words"}`;
      const mark = el("mark", { title }, word.word);
      mark.style.setProperty("--strength", String(0.35 + (0.65 * word.weight) / most));
      return mark;
    }),
  );
}

function placeOf(explained, { hit, rank, order }) {
  const length = explained.bits.length;
  const alike = `${length - explained.distance} of ${length} bits are alike`;
  const chance = `${Math.round(length / 2)} would be alike by chance`;
  const place = el("b", {}, `Hit ${number(rank)}`);
  if (order === "bits") return el("p", { class: "lead" }, place, `, because ${alike} (about ${chance}). The order is by bits alone.`);
  if (!explained.shared_words.length) {
    return el("p", { class: "lead" }, place, `, after all that share a word with your query, because ${alike} (about ${chance}).`);
  }
  return el(
    "p",
    { class: "lead" },
    place,
    ", because the order is by the words in both: they make a score of ",
    el("b", {}, hit.score.toFixed(2)),
    `. The bits only chose the candidates: ${alike}.`,
  );
}

// On a narrow screen the bits are long: one who wants them opens them.
function theBits(bits, yours) {
  const bySureness = [...bits].sort((a, b) => b.importance - a.importance);
  const alike = bySureness.filter((bit) => bit.query === bit.hit);
  const differing = bySureness.filter((bit) => bit.query !== bit.hit);
  return el(
    "details",
    { class: "fold the-bits", open: !narrow.matches },
    el("summary", {}, "The bits"),
    strip(bits, yours),
    reasons("Alike: both are", alike.slice(0, SHOWN_ALIKE), (bit) => agreement(bit, yours)),
    differing.length
      ? reasons("They differ on", differing.slice(0, SHOWN_DIFFERING), (bit) => difference(bit, yours))
      : el("p", { class: "quiet" }, "No bit differs."),
  );
}

const reasons = (title, bits, reason) => (bits.length ? el("div", { class: "reasons" }, el("h3", {}, title), bits.map(reason)) : null);

// Two rows of cells, a column for each bit.
function strip(bits, yours) {
  const hint = press() === "Tap" ? "Tap a column to see what its bit is about." : "Point at a column to see what its bit is about.";
  const said = el("p", { class: "said", "aria-live": "polite" }, hint);
  const columns = bits.map((bit) => {
    const isAlike = bit.query === bit.hit;
    return el(
      "button",
      {
        type: "button",
        class: `column ${isAlike ? "alike" : "differs"}`,
        "aria-label": `Bit ${bit.bit}, ${isAlike ? "alike" : "differs"}`,
        onpointerenter: () => tell(bit),
        onfocus: () => tell(bit),
        onclick: () => tell(bit),
      },
      el("i", { class: bit.query ? "one" : "zero" }),
      el("i", { class: bit.hit ? "one" : "zero" }),
    );
  });
  function tell(bit) {
    columns.forEach((column, place) => column.toggleAttribute("data-told", bits[place] === bit));
    show(said, link(bit), ": 1 is rather ", group(bit.raises), ", 0 is rather ", group(bit.lowers), ". ", values(bit, yours));
  }
  return el(
    "div",
    { class: "strip-frame" },
    el(
      "div",
      { class: "strip-lines" },
      el("div", { class: "strip-names", "aria-hidden": "true" }, el("span", {}, yours), el("span", {}, "This one")),
      el("div", { class: "strip" }, columns),
    ),
    el(
      "p",
      { class: "strip-key quiet" },
      el("span", {}, el("i", { class: "one" }), " bit is 1"),
      el("span", {}, el("i", { class: "zero" }), " bit is 0"),
      el("span", {}, el("i", { class: "other" }), " bits differ"),
    ),
    said,
  );
}

const link = (bit, kind = "") => el("a", { class: kind, href: `#bit=${bit.bit}` }, `Bit ${bit.bit}`);
const group = (list) => el("em", {}, list.slice(0, 4).join(", ") || "nothing in particular");
const side = (bit, value) => (value ? bit.raises : bit.lowers);

function values(bit, yours) {
  if (bit.query === bit.hit) return `Alike: both have ${bit.hit}.`;
  return `They differ: ${yours.toLowerCase()} ${yours === "Your words" ? "have" : "has"} ${bit.query}, this one has ${bit.hit}.`;
}

function agreement(bit, yours) {
  return reason("alike", ["rather about ", group(side(bit, bit.hit)), " than about ", group(side(bit, 1 - bit.hit))], bit, yours);
}

function difference(bit, yours) {
  return reason("differs", [`${yours.toLowerCase()}: `, group(side(bit, bit.query)), "; this one: ", group(side(bit, bit.hit))], bit, yours);
}

function reason(kind, told, bit, yours) {
  return el(
    "div",
    { class: "reason" },
    el("span", { class: `swatch ${kind}` }),
    el("p", {}, told, ". ", decided(bit, yours), " ", link(bit, "quiet")),
  );
}

function decided(bit, yours) {
  const list = (words_) => words_.slice(0, 3).map((word) => `“${word.word}”`).join(", ");
  const [first, second] = [list(bit.query_words), list(bit.hit_words)];
  const parts = [first ? `${first} in ${yours.toLowerCase()}` : "", second ? `${second} in this one` : ""].filter(Boolean);
  return el("span", { class: "quiet" }, parts.length ? `Because of ${parts.join(" and ")}.` : "");
}

// What there is to read beside the reasons.
function rest(hit, shared) {
  return [
    facts(hit),
    el(
      "details",
      { class: "fold full" },
      el("summary", {}, `Whole text (${number(hit.text.length)} characters)`),
      el("pre", {}, marked(hit.text.slice(0, 50000), shared)),
    ),
    el("p", { class: "onward" }, el("button", { type: "button", class: "button", onclick: () => go({ view: "like", id: hit.id }) }, "More like this")),
  ];
}
