// Light or dark theme: the system's preference until the button is used.

const system = matchMedia("(prefers-color-scheme: dark)");
const STORAGE_KEY = "fewbits-theme";

function stored() {
  try {
    return localStorage.getItem(STORAGE_KEY);
  } catch {
    return null; // storage may be disabled
  }
}

export function startTheme(button, onChange) {
  const apply = () => {
    const theme = stored() ?? (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light theme" : "Dark theme";
    onChange();
  };
  button.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(STORAGE_KEY, next);
    } catch {
      // the choice lasts until the page is closed
    }
    document.documentElement.dataset.theme = next;
    button.textContent = next === "dark" ? "Light theme" : "Dark theme";
    onChange();
  });
  system.addEventListener("change", apply);
  apply();
}
