// The state of the page, stored in the URL fragment: links and the back button work.

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

// Updates the URL while the user types, without a history entry for each letter.
export const replace = (state) => history.replaceState(null, "", write(state));
