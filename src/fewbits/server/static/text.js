// Text processing: titles, excerpts, and highlighting of words.

const WORD = /[\p{L}\p{N}]+/gu;
const SNIPPET_LENGTH = 260;

const MAX_TITLE_LENGTH = 200;
const MAX_SUGGESTION_LENGTH = 80;
const SUGGESTION_WORDS = 5;
const FUNCTION_WORDS = new Set(
  (
    "a about above after again all also although an and any are as at be because been before being between both but by can could "
    + "did do does during each either few for from further had has have he her here him his how i if in into is it its itself "
    + "may me might more most must my no nor not of off on once one only or other our out over own same shall she should so some "
    + "such than that the their them then there these they this those through to too under until up upon us use used using very "
    + "via was we were what when where which while who whom whose why will with within without would you your"
  ).split(" "),
);

// Splits a text into the first line, if short enough to be a title, and the rest.
export function splitTitle(text) {
  const whole = text.trim();
  const end = whole.slice(0, MAX_TITLE_LENGTH).indexOf("\n");
  return end > 0 ? { title: whole.slice(0, end).trim(), body: whole.slice(end).trim() } : { title: "", body: whole };
}

// Suggests a query: the title of a document, or its most frequent words in order of appearance.
export function suggestion(text) {
  const { title } = splitTitle(text);
  if (title && title.length <= MAX_SUGGESTION_LENGTH) return title;
  const counts = new Map();
  for (const [word] of (title || text.slice(0, 2000)).toLowerCase().matchAll(WORD)) {
    if (word.length > 2 && !FUNCTION_WORDS.has(word) && !/^\p{N}/u.test(word)) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const most = new Set([...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, SUGGESTION_WORDS));
  const words = [...counts.keys()].filter((word) => most.has(word)).join(" ");
  return words.length <= MAX_SUGGESTION_LENGTH ? words : "";
}

// Shortens a text, at a word boundary if it has one.
export function cut(text, length) {
  if (text.length <= length) return text;
  const end = text.lastIndexOf(" ", length);
  return `${text.slice(0, end > 0 ? end : length)} …`;
}

// Returns a text as nodes with the given words marked.
export function highlight(text, words) {
  if (!words.size) return [text];
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(WORD)) {
    if (!words.has(match[0].toLowerCase())) continue;
    nodes.push(text.slice(end, match.index));
    const mark = document.createElement("mark");
    mark.textContent = match[0];
    nodes.push(mark);
    end = match.index + match[0].length;
  }
  nodes.push(text.slice(end));
  return nodes;
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
