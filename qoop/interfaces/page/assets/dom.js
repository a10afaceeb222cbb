// Elements are made here, and only here. Text enters as text nodes: nothing from the server is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** h("p", {class: "x", onclick: f}, "text", child): an element with attributes, listeners and children. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replaces the children of `parent` and gives the focus back to the child that has the same data-key. */
export function refill(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  parent.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (focused !== undefined) parent.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

/** The most milliseconds that a drawing waits for who keeps something pressed. */
const LONGEST = 2000;
const PRESSED = "button, a, canvas, [role=button], [role=option]";
const waiting = new Map();
let letGo = null;

/** Calls `draw` now, or once the pointer is let go if it presses something that can be clicked: an element that is
 * replaced between press and release is never clicked. Of several drawings of one owner the last counts. */
export function drawCalmly(owner, draw) {
  if (letGo === null) draw();
  else waiting.set(owner, draw);
}

function press(event) {
  if (!event.target.closest?.(PRESSED) || (event.type === "keydown" && event.key !== " ")) return;
  clearTimeout(letGo);
  letGo = setTimeout(drawWaiting, LONGEST);
}

/** The click follows the release at once, so what waits is drawn after both. */
function release() {
  if (letGo === null) return;
  clearTimeout(letGo);
  letGo = setTimeout(drawWaiting, 0);
}

function drawWaiting() {
  letGo = null;
  const drawings = [...waiting.values()];
  waiting.clear();
  for (const draw of drawings) draw();
}

for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, press, true);
for (const kind of ["pointerup", "pointercancel", "keyup"]) addEventListener(kind, release, true);
addEventListener("blur", release); // of the window alone

/** Sets text only where it differs: an unchanged node costs no layout. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets a custom property. The policy of the page forbids style attributes, not the object model. */
export function setStyle(element, name, value) {
  if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
}

/** Calls `draw(value)` only when the value differs from that of the last call. */
export function whenChanged(draw) {
  let last;
  return (value) => {
    const text = JSON.stringify(value);
    if (text === last) return;
    last = text;
    draw(value);
  };
}

/** Tells a change to those who listen to the page. */
export function say(text) {
  setText(document.getElementById("said"), text);
}

export function progressBar(label) {
  const filled = h("span", { class: "filled" });
  const bar = h("div", { class: "bar", role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 }, filled);
  const update = (fraction) => {
    const whole = Math.round(100 * Math.min(1, Math.max(0, fraction || 0)));
    bar.setAttribute("aria-valuenow", whole);
    setStyle(filled, "width", `${whole}%`);
  };
  return { element: bar, update };
}

/** A dialog that goes when it is closed; Escape closes it, and the focus returns to where it was. */
export function openDialog(title, body, buttons = []) {
  document.querySelector("dialog[open]")?.close();
  const before = document.activeElement;
  const close = h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => dialog.close() }, "✕");
  const dialog = h(
    "dialog",
    { "aria-label": title },
    h("header", {}, h("h2", {}, title), close),
    h("div", { class: "body" }, body),
    buttons.length ? h("footer", {}, buttons) : null,
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (before?.isConnected) before.focus({ preventScroll: true });
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Shows a hint next to the pointer; without text it goes. */
export function hint(text, x = 0, y = 0) {
  const box = document.getElementById("hint");
  box.hidden = !text;
  if (!text) return;
  setText(box, text);
  const { offsetWidth: width, offsetHeight: height } = box;
  setStyle(box, "left", `${Math.max(4, Math.min(x + 12, innerWidth - width - 8))}px`);
  setStyle(box, "top", `${y + 16 + height > innerHeight ? y - height - 8 : y + 16}px`);
}
