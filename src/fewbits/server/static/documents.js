// Heading, excerpt and metadata of a document.

import { el } from "./dom.js";
import { cut, highlight, marked, snippet, splitTitle } from "./text.js";

const MAX_FACTS = 4;
const MAX_FACT_LENGTH = 40;
const NO_WORDS = new Set();

const named = (title, id) =>
  title ? [el("span", { class: "title", dir: "auto" }, title), " ", el("span", { class: "id beside" }, String(id))] : [el("span", { class: "id" }, String(id))];

// The title and the id of a document; only the id if its text has no title.
export function heading({ id, text }, words = NO_WORDS) {
  const { title } = splitTitle(text);
  return named(title && highlight(title, words), id);
}

// The same for a hit, whose words are marked by the service.
export const hitHeading = (hit) => named(hit.title && marked(hit.title, hit.title_marks), hit.id);

// The part of the text around the first of the given words.
export const excerpt = ({ text }, words = NO_WORDS) => highlight(snippet(splitTitle(text).body, words), words);

const valueOf = (value) => (typeof value === "string" ? value : Array.isArray(value) ? value.map(valueOf).join(", ") : JSON.stringify(value));

export function facts({ metadata }) {
  const pairs = Object.entries(metadata ?? {});
  if (!pairs.length) return null;
  return el("dl", { class: "facts" }, pairs.map(([name, value]) => [el("dt", {}, `${name}:`), el("dd", { dir: "auto" }, valueOf(value))]));
}

export function shortFacts({ metadata }) {
  return Object.entries(metadata ?? {})
    .slice(0, MAX_FACTS)
    .map(([name, value]) => el("span", { class: "fact quiet" }, `${cut(name, MAX_FACT_LENGTH)}: ${cut(valueOf(value), MAX_FACT_LENGTH)}`));
}
