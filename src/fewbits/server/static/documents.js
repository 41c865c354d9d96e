// What a document is called, and what is known of it beside its text.

import { el } from "./dom.js";
import { cut, marked, snippet, titled } from "./words.js";

const SHORT_FACTS = 3;
const SHORT_VALUE = 40;
const NO_WORDS = new Set();

// The title with the id beside it; the id alone where the text has no title.
export function heading({ id, text }, words = NO_WORDS) {
  const { title } = titled(text);
  return title
    ? [el("span", { class: "title" }, marked(title, words)), " ", el("span", { class: "id beside" }, String(id))]
    : [el("span", { class: "id" }, String(id))];
}

// The part of the text under the heading in which the words are.
export const excerpt = ({ text }, words = NO_WORDS) => marked(snippet(titled(text).body, words), words);

const valueOf = (value) => (typeof value === "string" ? value : Array.isArray(value) ? value.map(valueOf).join(", ") : JSON.stringify(value));

export function facts({ metadata }) {
  const pairs = Object.entries(metadata ?? {});
  if (!pairs.length) return null;
  return el("dl", { class: "facts" }, pairs.map(([name, value]) => [el("dt", {}, `${name}:`), el("dd", {}, valueOf(value))]));
}

export function shortFacts({ metadata }) {
  return Object.entries(metadata ?? {})
    .slice(0, SHORT_FACTS)
    .map(([name, value]) => el("span", { class: "fact quiet" }, `${cut(name, SHORT_VALUE)}: ${cut(valueOf(value), SHORT_VALUE)}`));
}
