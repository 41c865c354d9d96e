// Finding words in texts, to show where a query and a document meet.

const WORD = /[\p{L}\p{N}]+/gu;
const SHOWN = 260;

const LONGEST_TITLE = 200;
const LONGEST_SUGGESTION = 80;
const SUGGESTED_WORDS = 5;
const FUNCTION_WORDS = new Set(
  (
    "a about above after again all also although an and any are as at be because been before being between both but by can could "
    + "did do does during each either few for from further had has have he her here him his how i if in into is it its itself "
    + "may me might more most must my no nor not of off on once one only or other our out over own same shall she should so some "
    + "such than that the their them then there these they this those through to too under until up upon us use used using very "
    + "via was we were what when where which while who whom whose why will with within without would you your"
  ).split(" "),
);

// Many texts are a title on a line of its own and then the rest.
export function titled(text) {
  const whole = text.trim();
  const end = whole.slice(0, LONGEST_TITLE).indexOf("\n");
  return end > 0 ? { title: whole.slice(0, end).trim(), body: whole.slice(end).trim() } : { title: "", body: whole };
}

// A query to begin with: a document's title, or the words that it uses most, in the order in which they come.
export function suggestion(text) {
  const { title } = titled(text);
  if (title && title.length <= LONGEST_SUGGESTION) return title;
  const counts = new Map();
  for (const [word] of (title || text.slice(0, 2000)).toLowerCase().matchAll(WORD)) {
    if (word.length > 2 && !FUNCTION_WORDS.has(word) && !/^\p{N}/u.test(word)) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const most = new Set([...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, SUGGESTED_WORDS));
  const words = [...counts.keys()].filter((word) => most.has(word)).join(" ");
  return words.length <= LONGEST_SUGGESTION ? words : "";
}

// The beginning of a text, never half a word where there are several.
export function cut(text, length) {
  if (text.length <= length) return text;
  const end = text.lastIndexOf(" ", length);
  return `${text.slice(0, end > 0 ? end : length)} …`;
}

// A text as nodes, with the given words marked.
export function marked(text, words) {
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

// The part of a text around the first word that is looked for.
export function snippet(text, words) {
  const flat = text.slice(0, 20000).replace(/\s+/g, " ").trim();
  if (flat.length <= SHOWN) return flat;
  let start = 0;
  for (const match of flat.matchAll(WORD)) {
    if (words.has(match[0].toLowerCase())) {
      start = match.index < SHOWN * 0.7 ? 0 : flat.lastIndexOf(" ", Math.max(0, match.index - 60)) + 1;
      break;
    }
  }
  return (start ? "… " : "") + cut(flat.slice(start), SHOWN);
}
