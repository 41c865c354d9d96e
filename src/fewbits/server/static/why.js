// Why a document was found: answers that agree, answers that differ, and the words behind them.

import { go } from "./address.js";
import { post } from "./api.js";
import { el, number, show } from "./dom.js";
import { showError } from "./results.js";
import { marked } from "./words.js";

const SHOWN = 4;

export async function explainInto(place, { hit, cause, info, found }) {
  if (!info.takes_text) {
    show(place, full(hit, new Set()));
    return;
  }
  show(place, el("p", { class: "quiet" }, "Looking into it …"));
  const asked = cause.query === undefined ? { id: String(cause.id) } : { query: cause.query };
  try {
    const explained = await post("/v1/explain", { hit: String(hit.id), ...asked });
    const shared = new Set(explained.shared_words.map((word) => word.word));
    found(shared);
    show(place, story(explained, hit, cause, shared));
  } catch (error) {
    showError(place, error, () => explainInto(place, { hit, cause, info, found }));
  }
}

function story(explained, hit, cause, shared) {
  const bits = explained.bits;
  const alike = bits.length - explained.distance;
  const yours = cause.query === undefined ? "The first document" : "Your words";
  const bySureness = [...bits].sort((a, b) => b.importance - a.importance);
  const agreeing = bySureness.filter((bit) => bit.query === bit.hit);
  const differing = bySureness.filter((bit) => bit.query !== bit.hit);
  return [
    el(
      "p",
      { class: "lead" },
      el("b", {}, `${alike} of ${bits.length} answers are the same.`),
      ` Documents that have nothing to do with each other share about ${Math.round(bits.length / 2)}.`,
      alike < 0.6 * bits.length && shared.size ? " So it is not its answers that put it here, but the words in common." : "",
    ),
    words(explained),
    strip(bits, yours),
    agreeing.length
      ? el("div", { class: "reasons" }, el("h3", {}, "Both are"), agreeing.slice(0, SHOWN).map((bit) => agreement(bit, yours)))
      : null,
    differing.length
      ? el("div", { class: "reasons" }, el("h3", {}, "They part on"), differing.slice(0, SHOWN - 1).map((bit) => difference(bit, yours)))
      : el("p", { class: "quiet" }, "They differ in no answer."),
    full(hit, shared),
  ];
}

function words(explained) {
  if (!explained.shared_words.length) {
    return el("p", { class: "shared" }, "They have no word in common: it was found by what its words go with.");
  }
  const most = explained.shared_words[0].weight || 1;
  return el(
    "p",
    { class: "shared" },
    el("span", { class: "quiet" }, explained.shared_words.length === 1 ? "Word in both " : "Words in both "),
    explained.shared_words.slice(0, 12).map((word) => {
      const mark = el("mark", { title: `adds ${word.weight.toFixed(2)} to their likeness by words` }, word.word);
      mark.style.setProperty("--strength", String(0.35 + (0.65 * word.weight) / most));
      return mark;
    }),
  );
}

// Two rows of cells, a column for each bit.
function strip(bits, yours) {
  const said = el("p", { class: "said", "aria-live": "polite" }, "Point at a column, or tap it, to see its question.");
  const columns = bits.map((bit) => {
    const same = bit.query === bit.hit;
    return el(
      "button",
      {
        type: "button",
        class: `column ${same ? "same" : "differs"}`,
        "aria-label": `Bit ${bit.bit}, ${same ? "same" : "different"} answer`,
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
    show(said, el("a", { href: `#bit=${bit.bit}` }, `Question ${bit.bit}`), ": ", question(bit), " ", answers(bit, yours));
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
      el("span", {}, el("i", { class: "one" }), " first group of words"),
      el("span", {}, el("i", { class: "zero" }), " second group"),
      el("span", {}, el("i", { class: "other" }), " answers differ"),
    ),
    said,
  );
}

const group = (list) => el("em", {}, list.slice(0, 4).join(", ") || "nothing in particular");
const question = (bit) => el("span", {}, "rather ", group(bit.raises), " or rather ", group(bit.lowers), "?");
const side = (bit, value) => (value ? bit.raises : bit.lowers);

function answers(bit, yours) {
  const which = (value) => (value ? "the first" : "the second");
  return bit.query === bit.hit
    ? `Both say ${which(bit.hit)}.`
    : `${yours} ${yours === "Your words" ? "say" : "says"} ${which(bit.query)}, this one ${which(bit.hit)}.`;
}

function agreement(bit, yours) {
  return el(
    "div",
    { class: "reason" },
    el("span", { class: "swatch same" }),
    el(
      "p",
      {},
      "rather about ",
      group(side(bit, bit.hit)),
      " than about ",
      group(side(bit, 1 - bit.hit)),
      ". ",
      decided(bit, yours),
      " ",
      more(bit),
    ),
  );
}

function difference(bit, yours) {
  return el(
    "div",
    { class: "reason" },
    el("span", { class: "swatch differs" }),
    el(
      "p",
      {},
      yours === "Your words" ? "your words: " : "the first: ",
      group(side(bit, bit.query)),
      "; this one: ",
      group(side(bit, bit.hit)),
      ". ",
      decided(bit, yours),
      " ",
      more(bit),
    ),
  );
}

function decided(bit, yours) {
  const list = (words_) => words_.slice(0, 3).map((word) => `“${word.word}”`).join(", ");
  const [first, second] = [list(bit.query_words), list(bit.hit_words)];
  const parts = [
    first ? `${first} in ${yours === "Your words" ? "your words" : "the first"}` : "",
    second ? `${second} in this one` : "",
  ].filter(Boolean);
  return el("span", { class: "quiet" }, parts.length ? `Because of ${parts.join(" and ")}.` : "");
}

const more = (bit) => el("a", { class: "quiet", href: `#bit=${bit.bit}` }, `Question ${bit.bit}`);

function full(hit, shared) {
  const facts = Object.entries(hit.metadata ?? {});
  return el(
    "details",
    { class: "full" },
    el("summary", {}, `Whole text (${number(hit.text.length)} characters)`),
    el("pre", {}, marked(hit.text.slice(0, 50000), shared)),
    facts.length
      ? el("dl", {}, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, typeof value === "string" ? value : JSON.stringify(value))]))
      : null,
    el("p", {}, el("button", { type: "button", class: "button", onclick: () => go({ view: "like", id: hit.id }) }, "More like this")),
  );
}
