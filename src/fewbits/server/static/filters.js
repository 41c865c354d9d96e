// Filters: facets with counts, the filters and weights that are active, and the choices of ranking and order.

import { go, withWeight } from "./address.js";
import { el, narrow, number, show } from "./dom.js";

const RANKS = [
  ["hybrid", "words and codes"],
  ["words", "words alone"],
  ["codes", "codes alone"],
];

// Facets: click a value to choose it, click it again to remove it.
export function showFacets(place, { facets, state, labels }) {
  place.hidden = !facets.length;
  const chosen = Number(Boolean(state.label)) + state.where.length;
  const wasOpen = place.querySelector("details.filters")?.open ?? false;
  show(
    place,
    el(
      "details",
      { class: "filters", open: !narrow.matches || wasOpen },
      el("summary", {}, "Filter", chosen ? ` (${chosen} chosen)` : ""),
      el("h2", { class: "hidden" }, "Filter the hits"),
      facets.map((facet) => showFacet(facet, state, labels)),
    ),
  );
}

function showFacet(facet, state, labels) {
  const most = Math.max(1, ...facet.values.map((value) => value.count));
  return el(
    "section",
    { class: "facet" },
    el("h3", {}, facet.field ?? "label"),
    el("ul", {}, facet.values.map((value) => el("li", {}, valueButton(facet, value, state, most)))),
    facet.more ? (facet.field === null ? labelField(labels, state) : el("p", { class: "quiet" }, `and ${number(facet.more)} more`)) : null,
  );
}

function valueButton(facet, value, state, most) {
  const isChosen = facet.field === null ? state.label === value.value : value.where.length > 0 && value.where.every((one) => state.where.includes(one));
  const bar = el("i", { "aria-hidden": "true" });
  bar.style.width = `${(100 * value.count) / most}%`;
  return el(
    "button",
    { type: "button", class: "value", "data-key": `${facet.field ?? ""}|${value.value}`, "aria-pressed": String(isChosen), onclick: () => go(choose(facet, value, state, isChosen)) },
    el("span", { class: "value-name", dir: "auto" }, String(value.value)),
    " ",
    el("span", { class: "value-count" }, number(value.count)),
    bar,
  );
}

// The state with a value in the place of those chosen from its field.
function choose(facet, value, state, isChosen) {
  if (facet.field === null) return { ...state, label: isChosen ? "" : String(value.value) };
  const ofField = new Set(facet.values.flatMap((one) => one.where));
  const others = state.where.filter((one) => !ofField.has(one));
  return { ...state, where: isChosen ? others : [...others, ...value.where] };
}

// There may be a thousand labels: those that are not listed are found by typing.
function labelField(labels, state) {
  const options = Object.entries(labels).map(([name, count]) => el("option", { value: name }, `${name} (${number(count)})`));
  const field = el("input", { id: "label", type: "text", list: "labels", "aria-label": "Another label", placeholder: "Another label", value: state.label });
  field.addEventListener("change", () => go({ ...state, label: field.value.trim() }));
  return [field, el("datalist", { id: "labels" }, options)];
}

// What is chosen, each with a button that removes it.
export function activeFilters(state) {
  const chips = [
    state.label ? [`label: ${state.label}`, { ...state, label: "" }] : null,
    ...state.where.map((one) => [one, { ...state, where: state.where.filter((other) => other !== one) }]),
    ...Object.entries(state.weights).map(([bit, weight]) => [
      weight === 0 ? `bit ${bit} muted` : `bit ${bit} counts ${weight} times`,
      withWeight(state, bit, 1),
    ]),
  ].filter(Boolean);
  if (!chips.length) return null;
  return el(
    "ul",
    { class: "active", "aria-label": "Chosen filters and weights" },
    chips.map(([name, without]) =>
      el("li", {}, el("button", { type: "button", class: "chip remove", "aria-label": `Remove ${name}`, onclick: () => go(without) }, el("span", { dir: "auto" }, name), el("span", { "aria-hidden": "true" }, " ×"))),
    ),
  );
}

// Selects of the ranking, if queries are texts, and of the order.
export function orderBar(state, fields) {
  const sorts = [["", "best first"], ...fields.flatMap((field) => [[`-${field}`, `${field}, largest first`], [field, `${field}, smallest first`]])];
  return el(
    "div",
    { class: "order" },
    state.view === "search" ? select("rank", "Rank by", RANKS, state.rank, (rank) => go({ ...state, rank })) : null,
    fields.length ? select("sort", "Sort", sorts, state.sort, (sort) => go({ ...state, sort })) : null,
  );
}

function select(id, name, choices, value, change) {
  const field = el(
    "select",
    { id },
    choices.map(([choice, text]) => el("option", { value: choice, selected: choice === value }, text)),
  );
  field.addEventListener("change", () => change(field.value));
  return el("label", {}, el("span", { class: "quiet" }, name), " ", field);
}
