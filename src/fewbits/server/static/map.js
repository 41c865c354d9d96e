// The map: every document a point, near others with like codes. Drag to move, wheel or pinch to zoom.

import { get } from "./api.js";
import { el, number, show } from "./dom.js";
import { heading } from "./documents.js";
import { press } from "./screen.js";
import { cut, snippet, titled } from "./words.js";

const GRAIN = 10000; // places are whole numbers up to this
const MARGIN = 0.04;
const REACH = 10; // pixels around the pointer in which a point is found
const COLOURS = 8;
const STEP = 1.8; // of the buttons
const GAP = 12; // pixels between a point and what is told of it
const TOLD = 140; // characters
const RADIUS = 6; // pixels of a hit
const ALL = { x: 0.5, y: 0.5, zoom: 1 };

export class CorpusMap {
  constructor(panel, chosen) {
    this.panel = panel;
    this.canvas = panel.querySelector("canvas");
    this.tip = panel.querySelector("#map-tip");
    this.chosen = chosen;
    this.data = null;
    this.lit = [];
    this.centre = null;
    this.pointed = null;
    this.hovered = null;
    this.view = { ...ALL };
    this.pointers = new Map();
    this.loaded = new Promise((done) => {
      this.finish = done;
    });
    this.listen();
  }

  // All documents on the map, once it is there.
  async ids() {
    await this.loaded;
    return this.data?.ids ?? [];
  }

  async load() {
    try {
      this.data = await get("/v1/map");
    } catch (error) {
      if (error.status === 503) {
        this.note("The map is being drawn …");
        setTimeout(() => this.load(), 1500);
      } else {
        this.panel.hidden = true;
        this.finish();
      }
      return;
    }
    this.place = new Map(this.data.ids.map((id, at) => [String(id), at]));
    this.order = this.data.ids.map((_, at) => at).sort((a, b) => this.data.label[b] - this.data.label[a]); // rare ones below
    this.panel.dataset.points = this.data.ids.length;
    this.panel.dataset.method = this.data.method;
    this.finish();
    this.legend();
    const sampled = this.data.ids.length < this.data.documents ? `${number(this.data.ids.length)} of ${number(this.data.documents)} documents. ` : "";
    this.note(`${sampled}Points near each other have like bits. ${press()} on one for more like it.`);
    this.draw();
    if (this.data.method === "pca" && !this.asked) {
      this.asked = true;
      setTimeout(() => this.reload(), 60000); // a better one may be drawn meanwhile
    }
  }

  async reload() {
    const fresh = await get("/v1/map").catch(() => null);
    if (fresh && fresh.method !== this.data.method) this.load();
  }

  note(text) {
    this.panel.querySelector("#map-note").textContent = text;
  }

  legend() {
    const names = this.data.labels.slice(0, COLOURS);
    const entries = names.map((name, at) => el("span", {}, el("i", { class: `dot c${at}` }), name));
    if (this.data.labels.length > COLOURS) entries.push(el("span", {}, el("i", { class: "dot" }), `${number(this.data.labels.length - COLOURS)} others`));
    show(this.panel.querySelector("#legend"), entries);
  }

  light(hits, centre = null) {
    this.lit = hits.map((hit) => String(hit.id));
    this.centre = centre;
    this.pointed = null;
    this.view = { ...ALL };
    this.hovered = null;
    this.tip.hidden = true;
    this.draw();
  }

  // More hits of the same query: the view stays where it was taken to.
  lightMore(hits) {
    this.lit = hits.map((hit) => String(hit.id));
    this.draw();
  }

  point(id) {
    this.pointed = id === null ? null : String(id);
    this.draw();
  }

  size() {
    const box = this.canvas.getBoundingClientRect();
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    return { width: box.width, height: box.height, ratio };
  }

  // From a document's place to the canvas.
  at(place) {
    const { width, height } = this.box;
    const scale = Math.min(width, height) * (1 - 2 * MARGIN) * this.view.zoom;
    return [
      width / 2 + (this.data.x[place] / GRAIN - this.view.x) * scale,
      height / 2 - (this.data.y[place] / GRAIN - this.view.y) * scale,
    ];
  }

  draw() {
    if (!this.data || this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.paint();
    });
  }

  paint() {
    this.box = this.size();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const palette = Array.from({ length: COLOURS }, (_, at) => colour(`--c${at}`));
    const other = colour("--dot");
    const pen = this.canvas.getContext("2d");
    pen.setTransform(this.box.ratio, 0, 0, this.box.ratio, 0, 0);
    pen.clearRect(0, 0, this.box.width, this.box.height);
    const radius = Math.min(4, 1.3 * Math.sqrt(this.view.zoom) * (this.data.ids.length < 1000 ? 2 : 1));
    pen.globalAlpha = this.lit.length ? 0.3 : 0.75;
    for (const place of this.order) {
      const [x, y] = this.at(place);
      if (x < -5 || y < -5 || x > this.box.width + 5 || y > this.box.height + 5) continue;
      pen.fillStyle = palette[this.data.label[place]] ?? other;
      pen.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
    }
    pen.globalAlpha = 1;
    const ring = (id, size, fill) => {
      const place = this.place.get(String(id));
      if (place === undefined) return;
      pen.beginPath();
      pen.arc(...this.at(place), size, 0, 2 * Math.PI);
      pen.fillStyle = fill;
      pen.fill();
      pen.lineWidth = 2;
      pen.strokeStyle = colour("--paper");
      pen.stroke();
    };
    for (const id of [...this.lit].reverse()) ring(id, RADIUS - 0.5, colour("--accent"));
    if (this.centre !== null) ring(this.centre, 7, colour("--differs"));
    if (this.hovered !== null) ring(this.data.ids[this.hovered], RADIUS + 1, colour("--ink")); // what is told may stand farther off
    if (this.pointed !== null) ring(this.pointed, 9, colour("--accent"));
    this.panel.dataset.lit = this.litPlaces().length;
    this.panel.dataset.litInView = this.inView(this.litPlaces()).length;
    this.panel.dataset.zoom = this.view.zoom.toFixed(2);
  }

  litPlaces() {
    return [...this.lit, ...(this.centre === null ? [] : [this.centre])].map((id) => this.place.get(String(id))).filter((place) => place !== undefined);
  }

  inView(places) {
    return places.filter((place) => {
      const [x, y] = this.at(place);
      return x >= 0 && y >= 0 && x <= this.box.width && y <= this.box.height;
    });
  }

  // The buttons look at what is there: hits where some are in view, else points; never at an empty middle.
  zoomIn() {
    const lit = this.inView(this.litPlaces());
    const places = lit.length ? lit : this.inView(this.order);
    if (places.length) {
      const { x, y } = this.data;
      const [middleX, middleY] = [median(places.map((place) => x[place])), median(places.map((place) => y[place]))];
      const away = (place) => Math.hypot(x[place] - middleX, y[place] - middleY);
      const middle = places.reduce((best, place) => (away(place) < away(best) ? place : best));
      Object.assign(this.view, { x: x[middle] / GRAIN, y: y[middle] / GRAIN });
    }
    this.zoom(STEP);
  }

  nearest(x, y) {
    let [best, least] = [null, REACH * REACH];
    for (let place = 0; place < this.data.ids.length; place++) {
      const [px, py] = this.at(place);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [place, distance];
    }
    return best;
  }

  zoom(factor, x = this.box.width / 2, y = this.box.height / 2) {
    const zoom = Math.min(60, Math.max(1, this.view.zoom * factor));
    const scale = (value) => Math.min(this.box.width, this.box.height) * (1 - 2 * MARGIN) * value;
    const [dx, dy] = [x - this.box.width / 2, this.box.height / 2 - y];
    this.view.x += dx / scale(this.view.zoom) - dx / scale(zoom);
    this.view.y += dy / scale(this.view.zoom) - dy / scale(zoom);
    this.view.zoom = zoom;
    if (zoom === 1) this.view = { ...ALL };
    this.tip.hidden = true;
    this.draw();
  }

  listen() {
    const { canvas } = this;
    const here = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("wheel", (event) => {
      if (!this.data) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...here(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      this.pointers.set(event.pointerId, here(event));
      this.moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.data || !this.box) return;
      if (this.pointers.has(event.pointerId)) this.drag(event.pointerId, here(event));
      else this.hover(...here(event));
    });
    canvas.addEventListener("pointerup", (event) => {
      this.pointers.delete(event.pointerId);
      if (!this.data || this.moved > 4) return;
      const place = this.nearest(...here(event));
      if (place !== null) this.chosen(this.data.ids[place]);
    });
    canvas.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => this.hover(-99, -99));
    for (const button of this.panel.querySelectorAll("[data-map]")) {
      button.addEventListener("click", () => {
        if (!this.data || !this.box) return;
        if (button.dataset.map === "in") this.zoomIn();
        else this.zoom(button.dataset.map === "all" ? 0 : 1 / STEP);
      });
    }
    new ResizeObserver(() => this.draw()).observe(canvas);
    this.panel.querySelector("details").addEventListener("toggle", () => this.draw());
  }

  drag(pointer, [x, y]) {
    const [fromX, fromY] = this.pointers.get(pointer);
    this.moved += Math.hypot(x - fromX, y - fromY);
    const other = [...this.pointers].find(([id]) => id !== pointer)?.[1];
    if (other) this.zoom(Math.hypot(x - other[0], y - other[1]) / (Math.hypot(fromX - other[0], fromY - other[1]) || 1), ...other);
    else {
      const scale = Math.min(this.box.width, this.box.height) * (1 - 2 * MARGIN) * this.view.zoom;
      this.view.x -= (x - fromX) / scale;
      this.view.y += (y - fromY) / scale;
      this.draw();
    }
    this.pointers.set(pointer, [x, y]);
    this.tip.hidden = true;
  }

  hover(x, y) {
    if (!this.data || !this.box) return;
    const place = this.nearest(x, y);
    if (place === this.hovered) return;
    this.hovered = place;
    this.draw();
    clearTimeout(this.timer);
    this.canvas.style.cursor = place === null ? "grab" : "pointer";
    this.tip.hidden = place === null;
    if (place === null) return;
    const id = this.data.ids[place];
    const label = this.data.labels[this.data.label[place]];
    show(this.tip, el("b", {}, String(id)), label ? el("span", { class: "quiet" }, ` ${label}`) : null);
    this.placeTip(place);
    this.timer = setTimeout(async () => {
      const found = await get(`/v1/document?id=${encodeURIComponent(id)}`).catch(() => null);
      if (!found || this.hovered !== place) return;
      const [name, ...beside] = heading(found);
      const told = cut(snippet(titled(found.text).body, new Set()), TOLD);
      show(this.tip, el("b", {}, name), beside, label ? el("span", { class: "quiet" }, ` ${label}`) : null, el("p", {}, told));
      this.placeTip(place);
    }, 120);
  }

  // Beside the point, on the side where it hides no hit; below the map where each side would.
  placeTip(place) {
    const [x, y] = this.at(place);
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const lit = this.litPlaces().map((one) => this.at(one));
    const isFree = ([left, top]) => {
      const [right, bottom] = [left + width, top + height];
      const isInside = left >= 0 && top >= 0 && right <= this.box.width && bottom <= this.box.height;
      return isInside && !lit.some(([px, py]) => px > left - RADIUS && px < right + RADIUS && py > top - RADIUS && py < bottom + RADIUS);
    };
    const across = [x + GAP, x - GAP - width, x - width / 2];
    const down = [y + GAP, y - GAP - height];
    const below = [Math.max(0, Math.min(x - width / 2, this.box.width - width)), this.box.height + GAP];
    const [left, top] = down.flatMap((one) => across.map((other) => [other, one])).find(isFree) ?? below;
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${top}px`;
  }
}

function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}
