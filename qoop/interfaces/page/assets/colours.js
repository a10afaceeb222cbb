// Colours of stages and plans: Okabe and Ito's, which the colour-blind can tell apart. Names in the picture say the same.

const SERIES = 8;
const resolved = new Map();
let probe = null;

/** The class of a series: `series-3`. */
export function seriesOf(names, name) {
  return Math.max(0, names.indexOf(name)) % SERIES;
}

/** What a custom property is as a colour now, in this theme; for the canvas, which knows no properties. */
export function colour(property) {
  if (!resolved.has(property)) {
    probe ??= document.body.appendChild(document.createElement("i"));
    probe.hidden = true;
    probe.style.color = `var(${property})`;
    resolved.set(property, getComputedStyle(probe).color);
  }
  return resolved.get(property);
}

export function forgetColours() {
  resolved.clear();
}

const KEY = "qoop-theme";
const THEMES = ["auto", "light", "dark"];

/** The button that goes through auto, light and dark; `changed` draws again. */
export function themeButton(button, changed) {
  const show = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[theme];
    button.setAttribute("aria-label", `Colours: ${theme}`);
    forgetColours();
    changed();
  };
  let theme = kept();
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    keep(theme);
    show(theme);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(theme));
  show(theme);
}

// A browser may forbid storage; the choice then lasts as long as the page.
function kept() {
  try {
    return THEMES.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "auto";
  } catch {
    return "auto";
  }
}

function keep(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // see kept()
  }
}
