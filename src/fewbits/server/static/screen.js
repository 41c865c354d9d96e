// What kind of screen this is; the same widths are in style.css.

export const narrow = matchMedia("(max-width: 900px)");
const touched = matchMedia("(pointer: coarse), (max-width: 640px)");

export const press = () => (touched.matches ? "Tap" : "Click");
