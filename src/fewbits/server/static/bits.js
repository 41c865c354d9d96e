// A page for each bit: the words it stands for, and the documents that are surest of it.

import { go } from "./address.js";
import { excerpt, heading } from "./documents.js";
import { el, number, show } from "./dom.js";
import { learntFrom } from "./results.js";

const search = (word) => el("button", { type: "button", class: "chip", onclick: () => go({ view: "search", query: word }) }, word);

export function showBits(place, bits, info) {
  show(
    place,
    el("h1", {}, `The ${bits.length} bits`),
    el(
      "p",
      { class: "intro" },
      `There are ${number(info.documents)} documents. ${learntFrom(info)} Each bit splits documents into two groups, by words that are `
        + "likelier in one than in the other: it is 1 for the first group and 0 for the second. A document’s code is its bits in this order.",
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

export function showBit(place, found, info) {
  const { bit, raises, lowers } = found.meaning;
  const step = (to, text) => (to >= 0 && to < info.bits ? el("a", { href: `#bit=${to}` }, text) : el("span", {}));
  show(
    place,
    el("p", { class: "steps" }, step(bit - 1, `← Bit ${bit - 1}`), el("a", { href: "#bits" }, "All bits"), step(bit + 1, `Bit ${bit + 1} →`)),
    el("h1", {}, `Bit ${bit}`),
    el("p", { class: "intro" }, "It is 1 for documents rather about the first group of words, and 0 for those rather about the second. Shown are the documents that are surest of it."),
    share(found),
    el(
      "div",
      { class: "sides" },
      sideOf("Bit is 1", "one", raises, found.ones, found.examples_of_one),
      sideOf("Bit is 0", "zero", lowers, found.zeros, found.examples_of_zero),
    ),
  );
}

function share(found) {
  const bar = el("i", {});
  bar.style.width = `${(100 * found.ones) / Math.max(1, found.ones + found.zeros)}%`;
  return el("div", { class: "share", role: "img", "aria-label": `The bit is 1 for ${found.ones} documents and 0 for ${found.zeros}` }, bar);
}

function sideOf(name, kind, words, count, documents) {
  return el(
    "section",
    { class: `side ${kind}` },
    el("h2", {}, name, el("span", { class: "quiet" }, ` for ${number(count)} documents`)),
    el("p", { class: "tries" }, words.length ? words.map(search) : el("span", { class: "quiet" }, "no word in particular")),
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
