// Keyboard: / focuses the search field, arrows and Enter move through the hits, Escape goes back.

export function startKeys({ query, results, leave }) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const inField = event.target.matches("input, textarea, select");
    if (event.key === "/" && !inField) {
      event.preventDefault();
      query.focus();
      query.select();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (inField && event.target !== query) return;
      move(event, event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Escape") {
      const open = results.querySelector(".hit[data-open] .hit-head");
      event.preventDefault();
      if (open && event.target !== query) {
        open.click();
        open.focus();
      } else leave();
    }
  });

  function move(event, step) {
    const heads = [...results.querySelectorAll(".hit-head")];
    if (!heads.length) return;
    const current = heads.indexOf(document.activeElement);
    if (current < 0 && event.target !== query && document.activeElement !== document.body) return;
    event.preventDefault();
    if (current + step < 0) query.focus();
    else heads[Math.min(current + step, heads.length - 1)].focus();
  }
}
