// A page for each bit: the question it stands for, and the documents that are surest of their answer.

import { go } from "./address.js";
import { el, number, show } from "./dom.js";
import { snippet } from "./words.js";

const search = (word) => el("button", { type: "button", class: "chip", onclick: () => go({ view: "search", query: word }) }, word);

export function showBits(place, bits, info) {
  show(
    place,
    el("h1", {}, `The ${bits.length} questions`),
    el(
      "p",
      { class: "intro" },
      `Learnt from the ${number(info.documents)} documents: each splits them into two groups, by words that are likelier in one than in the other. A document’s code is its answers in this order.`,
    ),
    el(
      "ol",
      { class: "questions" },
      bits.map((bit) =>
        el(
          "li",
          {},
          el(
            "a",
            { href: `#bit=${bit.bit}` },
            el("b", {}, String(bit.bit)),
            el("span", { class: "group one" }, bit.raises.slice(0, 4).join(" ") || "—"),
            el("span", { class: "group zero" }, bit.lowers.slice(0, 4).join(" ") || "—"),
          ),
        ),
      ),
    ),
  );
}

export function showBit(place, found, info) {
  const { bit, raises, lowers } = found.meaning;
  const step = (to, text) => (to >= 0 && to < info.bits ? el("a", { href: `#bit=${to}` }, text) : el("span", {}));
  show(
    place,
    el("p", { class: "steps" }, step(bit - 1, "← Question " + (bit - 1)), el("a", { href: "#bits" }, "All questions"), step(bit + 1, `Question ${bit + 1} →`)),
    el("h1", {}, `Question ${bit}`),
    el("p", { class: "intro" }, "Is a document rather about the first group of words, or about the second? These documents are surest of their answer."),
    share(found),
    el(
      "div",
      { class: "sides" },
      sideOf("The first", "one", "bit is 1", raises, found.ones, found.examples_of_one),
      sideOf("The second", "zero", "bit is 0", lowers, found.zeros, found.examples_of_zero),
    ),
  );
}

function share(found) {
  const bar = el("i", {});
  bar.style.width = `${(100 * found.ones) / Math.max(1, found.ones + found.zeros)}%`;
  return el("div", { class: "share", role: "img", "aria-label": `${found.ones} documents say the first, ${found.zeros} the second` }, bar);
}

function sideOf(name, kind, value, words, count, documents) {
  return el(
    "section",
    { class: `side ${kind}` },
    el("h2", {}, name, el("span", { class: "quiet" }, ` ${number(count)} documents, ${value}`)),
    el("p", { class: "tries" }, words.length ? words.map(search) : el("span", { class: "quiet" }, "no word in particular")),
    el(
      "ul",
      { class: "examples" },
      documents.map((one) =>
        el(
          "li",
          {},
          el("button", { type: "button", class: "link id", onclick: () => go({ view: "like", id: one.id }) }, String(one.id)),
          el("p", { class: "text" }, snippet(one.text, new Set(words))),
        ),
      ),
    ),
  );
}
