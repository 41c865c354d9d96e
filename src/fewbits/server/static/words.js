// Finding words in texts, to show where a query and a document meet.

const WORD = /[\p{L}\p{N}]+/gu;
const SHOWN = 260;

// The beginning of a text, short enough to be a query.
export function opening(text) {
  const first = text.trim().split(/[.\n;:(]/)[0].split(/\s+/).slice(0, 7).join(" ");
  return /^[\p{L}\p{N} ,'-]{12,60}$/u.test(first) ? first : null;
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
  const part = flat.slice(start, start + SHOWN);
  const cut = start + SHOWN < flat.length ? part.slice(0, part.lastIndexOf(" ") > 0 ? part.lastIndexOf(" ") : SHOWN) + " …" : part;
  return (start ? "… " : "") + cut;
}
