// List of all bits, and a page per bit with its words and example documents.

import { go, searchFor } from "./address.js";
import { excerpt, heading } from "./documents.js";
import { el, number, show } from "./dom.js";
import { trainingSentence } from "./results.js";

const searchButton = (word) => el("button", { type: "button", class: "chip", onclick: () => searchFor(word) }, word);

export function showBits(place, bits, info) {
  show(
    place,
    el("h1", {}, `The ${bits.length} bits`),
    el(
      "p",
      { class: "intro" },
      `${number(info.documents)} documents are indexed. ${trainingSentence(info)} Each bit divides the documents into two groups, listed here by the words that `
        + "are more frequent in one than in the other: the bit is 1 for the first group and 0 for the second. The code of a document is its bits in this order.",
    ),
    el(
      "ol",
      { class: "bits" },
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

export function showBit(place, response, info) {
  const { bit, raises, lowers } = response.meaning;
  const step = (to, text) => (to >= 0 && to < info.bits ? el("a", { href: `#bit=${to}` }, text) : el("span", {}));
  show(
    place,
    el("p", { class: "steps" }, step(bit - 1, `← Bit ${bit - 1}`), el("a", { href: "#bits" }, "All bits"), step(bit + 1, `Bit ${bit + 1} →`)),
    el("h1", {}, `Bit ${bit}`),
    el("p", { class: "intro" }, "It is 1 for documents closer to the first group of words below, and 0 for those closer to the second. The documents shown are the clearest examples."),
    share(response),
    el(
      "div",
      { class: "sides" },
      side("Bit is 1", "one", raises, response.ones, response.examples_of_one),
      side("Bit is 0", "zero", lowers, response.zeros, response.examples_of_zero),
    ),
  );
}

function share(response) {
  const bar = el("i", {});
  bar.style.width = `${(100 * response.ones) / Math.max(1, response.ones + response.zeros)}%`;
  return el("div", { class: "share", role: "img", "aria-label": `The bit is 1 for ${response.ones} documents and 0 for ${response.zeros}` }, bar);
}

function side(name, kind, words, count, documents) {
  return el(
    "section",
    { class: `side ${kind}` },
    el("h2", {}, name, el("span", { class: "quiet" }, ` for ${number(count)} documents`)),
    el("p", { class: "tries" }, words.length ? words.map(searchButton) : el("span", { class: "quiet" }, "no particular words")),
    el(
      "ul",
      { class: "examples" },
      documents.map((one) =>
        el(
          "li",
          {},
          el("button", { type: "button", class: "link name", onclick: () => go({ view: "like", id: one.id }) }, heading(one, new Set(words))),
          el("p", { class: "text" }, excerpt(one, new Set(words))),
        ),
      ),
    ),
  );
}
