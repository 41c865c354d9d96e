// Text processing: titles, excerpts, and highlighting of words.

const WORD = /[\p{L}\p{N}]+/gu;
const SNIPPET_LENGTH = 240;
const MAX_TITLE_LENGTH = 200;

// Splits a text into the first line, if short enough to be a title, and the rest.
export function splitTitle(text) {
  const whole = text.trim();
  const end = whole.slice(0, MAX_TITLE_LENGTH).indexOf("\n");
  return end > 0 ? { title: whole.slice(0, end).trim(), body: whole.slice(end).trim() } : { title: "", body: whole };
}

// Shortens a text, at a word boundary if it has one.
export function cut(text, length) {
  if (text.length <= length) return text;
  const end = text.lastIndexOf(" ", length);
  return `${text.slice(0, end > 0 ? end : length)} …`;
}

// Returns a text as nodes with some places marked; the service counts characters, JavaScript counts UTF-16 units.
export function marked(text, marks) {
  if (!marks.length) return [text];
  const characters = [...text];
  const nodes = [];
  let end = 0;
  for (const [first, last] of marks) {
    nodes.push(characters.slice(end, first).join(""), mark(characters.slice(first, last).join("")));
    end = last;
  }
  nodes.push(characters.slice(end).join(""));
  return nodes;
}

// Returns a text as nodes with the given words marked.
export function highlight(text, words) {
  if (!words.size) return [text];
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(WORD)) {
    if (!words.has(match[0].toLowerCase())) continue;
    nodes.push(text.slice(end, match.index), mark(match[0]));
    end = match.index + match[0].length;
  }
  nodes.push(text.slice(end));
  return nodes;
}

function mark(text) {
  const element = document.createElement("mark");
  element.textContent = text;
  return element;
}

// Returns the part of a text around the first of the given words.
export function snippet(text, words) {
  const flat = text.slice(0, 20000).replace(/\s+/g, " ").trim();
  if (flat.length <= SNIPPET_LENGTH) return flat;
  let start = 0;
  for (const match of flat.matchAll(WORD)) {
    if (words.has(match[0].toLowerCase())) {
      start = match.index < SNIPPET_LENGTH * 0.7 ? 0 : flat.lastIndexOf(" ", Math.max(0, match.index - 60)) + 1;
      break;
    }
  }
  return (start ? "… " : "") + cut(flat.slice(start), SNIPPET_LENGTH);
}
