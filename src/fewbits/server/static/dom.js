// Creates all elements of the page. Text always becomes a text node, so documents cannot inject markup.

export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export function show(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
}

export const number = (value) => value.toLocaleString("en");

// The same widths are in style.css.
export const narrow = matchMedia("(max-width: 900px)");
const touch = matchMedia("(pointer: coarse), (max-width: 640px)");

export const clickVerb = () => (touch.matches ? "Tap" : "Click");
