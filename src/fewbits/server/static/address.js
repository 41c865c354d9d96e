// The state of the page, stored in the URL fragment: links and the back button work.

const RANKS = { bits: "codes", codes: "codes", words: "words" }; // by=bits is the old name

export function read() {
  const hash = location.hash.replace(/^#/, "");
  if (hash === "bits") return { view: "bits" };
  const values = new URLSearchParams(hash);
  if (values.has("bit")) return { view: "bit", bit: Number.parseInt(values.get("bit"), 10) };
  const shared = {
    label: values.get("label") ?? "",
    where: values.getAll("where"),
    sort: values.get("sort") ?? "",
    weights: readWeights(values.get("w") ?? ""),
  };
  if (values.has("like")) return { view: "like", id: values.get("like"), ...shared };
  return { view: "search", query: values.get("q") ?? "", rank: RANKS[values.get("by")] ?? "hybrid", ...shared };
}

export function write(state) {
  const values = new URLSearchParams();
  if (state.view === "like") values.set("like", state.id);
  else if (state.query) values.set("q", state.query);
  if (state.rank && state.rank !== "hybrid") values.set("by", state.rank);
  if (state.label) values.set("label", state.label);
  for (const condition of state.where ?? []) values.append("where", condition);
  if (state.sort) values.set("sort", state.sort);
  const weights = Object.entries(state.weights ?? {}).map(([bit, weight]) => `${bit}:${weight}`);
  if (weights.length) values.set("w", weights.join(","));
  return `#${values}`;
}

export const go = (state) => {
  location.hash = write(state);
};

// Updates the URL while the user types, without a history entry for each letter.
export const replace = (state) => history.replaceState(null, "", write(state));

// A new search keeps the filters and weights, but not the ids.
export const searchFor = (query) => {
  const { label = "", where = [], weights = {} } = read();
  go({ view: "search", query, label, where, weights });
};

export const withWeight = (state, bit, weight) => {
  const weights = { ...state.weights };
  if (weight === 1) delete weights[bit];
  else weights[bit] = weight;
  return { ...state, weights };
};

function readWeights(text) {
  const pairs = text.split(",").map((part) => part.split(":").map(Number));
  return Object.fromEntries(pairs.filter(([bit, weight]) => Number.isInteger(bit) && weight >= 0 && weight <= 100));
}
