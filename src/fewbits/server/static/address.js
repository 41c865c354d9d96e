// What is shown is written in the address, so that it can be linked to and gone back to.

export function read() {
  const hash = location.hash.replace(/^#/, "");
  if (hash === "bits") return { view: "bits" };
  const values = new URLSearchParams(hash);
  if (values.has("bit")) return { view: "bit", bit: Number.parseInt(values.get("bit"), 10) };
  const label = values.get("label") ?? "";
  if (values.has("like")) return { view: "like", id: values.get("like"), label };
  return { view: "search", query: values.get("q") ?? "", label, by: values.get("by") === "bits" ? "bits" : "words" };
}

export function write(state) {
  const values = new URLSearchParams();
  if (state.view === "like") values.set("like", state.id);
  else if (state.query) values.set("q", state.query);
  if (state.by === "bits") values.set("by", "bits");
  if (state.label) values.set("label", state.label);
  return `#${values}`;
}

export const go = (state) => {
  location.hash = write(state);
};

// While somebody types, the address follows without a step back for each letter.
export const follow = (state) => history.replaceState(null, "", write(state));
