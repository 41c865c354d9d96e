// Light or dark: as the system has it, until the switch is used.

const system = matchMedia("(prefers-color-scheme: dark)");
const KEY = "fewbits-theme";

function chosen() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage may be forbidden
  }
}

export function startTheme(button, changed) {
  const apply = () => {
    const theme = chosen() ?? (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    changed();
  };
  button.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // then it lasts until the page is left
    }
    document.documentElement.dataset.theme = next;
    button.textContent = next === "dark" ? "Light" : "Dark";
    changed();
  });
  system.addEventListener("change", apply);
  apply();
}
