// Map of the documents: points near each other have similar codes. Drag to move, wheel or pinch to zoom.

import { searchFor } from "./address.js";
import { get } from "./api.js";
import { clickVerb, el, number, show } from "./dom.js";
import { heading } from "./documents.js";
import { cut, snippet, splitTitle } from "./text.js";

const GRID_SIZE = 10000; // coordinates are integers up to this
const MARGIN = 0.04;
const PICK_RADIUS = 10; // pixels around the pointer
const COLORS = 8;
const ZOOM_STEP = 1.8; // per click on a button
const TIP_GAP = 12; // pixels between a point and its tooltip
const TIP_LENGTH = 140; // characters
const HIT_RADIUS = 6; // pixels
const REGION_WORDS = 2; // of a name
const ALL = { x: 0.5, y: 0.5, zoom: 1 };

export class CorpusMap {
  constructor(panel, onSelect) {
    this.panel = panel;
    this.canvas = panel.querySelector("canvas");
    this.tip = panel.querySelector("#map-tip");
    this.onSelect = onSelect;
    this.data = null;
    this.highlighted = [];
    this.center = null;
    this.pointed = null;
    this.hovered = null;
    this.view = { ...ALL };
    this.pointers = new Map();
    this.loaded = new Promise((done) => {
      this.finish = done;
    });
    this.listen();
  }

  async load() {
    try {
      this.data = await get("/v1/map");
    } catch (error) {
      if (error.status === 503) {
        this.note("Computing the map …");
        setTimeout(() => this.load(), 1500);
      } else {
        this.panel.hidden = true;
        this.finish();
      }
      return;
    }
    this.indexOf = new Map(this.data.ids.map((id, index) => [String(id), index]));
    this.colorChoice();
    this.nameRegions();
    this.panel.dataset.points = this.data.ids.length;
    this.panel.dataset.method = this.data.method;
    this.finish();
    const sampled = this.data.ids.length < this.data.documents ? `${number(this.data.ids.length)} of ${number(this.data.documents)} documents. ` : "";
    this.note(`${sampled}Points near each other have similar codes. ${clickVerb()} a point to see similar documents.`);
    this.draw();
    if (this.data.method === "pca" && !this.reloadPlanned) {
      this.reloadPlanned = true;
      setTimeout(() => this.reload(), 60000); // the UMAP map may be ready by then
    }
  }

  async reload() {
    const fresh = await get("/v1/map").catch(() => null);
    if (fresh && fresh.method !== this.data.method) this.load();
  }

  note(text) {
    this.panel.querySelector("#map-note").textContent = text;
  }

  // The regions of the map; none before it is loaded.
  regions() {
    return this.data?.regions ?? [];
  }

  // A select of the fields that points can be colored by.
  colorChoice() {
    const { fields } = this.data;
    const select = this.panel.querySelector("#color");
    this.panel.querySelector("#color-choice").hidden = fields.length < 2;
    show(select, fields.map(({ field }, index) => el("option", { value: String(index) }, field ?? "label")));
    select.onchange = () => this.colorBy(fields[Number(select.value)]);
    this.colorBy(fields[0] ?? { field: null, kind: "values", values: [], index: this.data.ids.map(() => -1) });
  }

  colorBy(field) {
    this.field = field;
    this.order = field.index.map((_, index) => index).sort((a, b) => field.index[b] - field.index[a]); // rare values are drawn first
    const names = field.values.slice(0, COLORS);
    const kind = field.kind === "ranges" ? "r" : "c";
    const entries = names.map((name, index) => el("span", {}, el("i", { class: `dot ${kind}${index}` }), el("span", { dir: "auto" }, String(name))));
    if (field.index.some((place) => place < 0)) entries.push(el("span", {}, el("i", { class: "dot" }), names.length ? "others" : "documents"));
    show(this.panel.querySelector("#legend"), entries);
    this.panel.dataset.color = field.field ?? "label";
    this.draw();
  }

  // Names of regions, as buttons that search for their words.
  nameRegions() {
    this.names = this.regions().map((region) => {
      const name = region.words.slice(0, REGION_WORDS).join(" ");
      const button = el("button", { type: "button", title: `Search for “${name}”`, onclick: () => searchFor(name) }, name);
      return { region, button, item: el("li", {}, button) };
    });
    show(this.panel.querySelector("#regions"), this.names.map(({ item }) => item));
  }

  // Places the names on the map: the larger regions first, and none where it would cover another.
  placeNames() {
    const boxes = [];
    for (const { region, item } of this.names ?? []) {
      const [x, y] = this.project(region.x, region.y);
      const { offsetWidth: width, offsetHeight: height } = item;
      const left = Math.min(Math.max(2, x - width / 2), this.box.width - width - 2);
      const box = [left, y - height / 2, left + width, y + height / 2];
      const isInside = x >= 0 && x <= this.box.width && box[1] >= 0 && box[3] <= this.box.height;
      const isUnderButtons = box[2] > this.box.width - 48 && box[1] < 120;
      const isFree = isInside && !isUnderButtons && boxes.every((one) => box[2] < one[0] || one[2] < box[0] || box[3] < one[1] || one[3] < box[1]);
      item.style.visibility = isFree ? "visible" : "hidden";
      item.style.left = `${left}px`;
      item.style.top = `${box[1]}px`;
      if (isFree) boxes.push(box);
    }
    this.panel.dataset.names = boxes.length;
  }

  highlight(hits, center = null) {
    this.highlighted = hits.map((hit) => String(hit.id));
    this.center = center;
    this.pointed = null;
    this.view = { ...ALL };
    this.hovered = null;
    this.tip.hidden = true;
    this.draw();
  }

  // Highlights more hits of the same query and keeps the view.
  highlightMore(hits) {
    this.highlighted = hits.map((hit) => String(hit.id));
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

  // Canvas coordinates of a document.
  at(index) {
    return this.project(this.data.x[index], this.data.y[index]);
  }

  project(x, y) {
    const { width, height } = this.box;
    const scale = Math.min(width, height) * (1 - 2 * MARGIN) * this.view.zoom;
    return [width / 2 + (x / GRID_SIZE - this.view.x) * scale, height / 2 - (y / GRID_SIZE - this.view.y) * scale];
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
    const color = (name) => style.getPropertyValue(name).trim();
    const palette = Array.from({ length: COLORS }, (_, index) => color(`--${this.field.kind === "ranges" ? "r" : "c"}${index}`));
    const other = color("--dot");
    const pen = this.canvas.getContext("2d");
    pen.setTransform(this.box.ratio, 0, 0, this.box.ratio, 0, 0);
    pen.clearRect(0, 0, this.box.width, this.box.height);
    const radius = Math.min(4, 1.3 * Math.sqrt(this.view.zoom) * (this.data.ids.length < 1000 ? 2 : 1));
    pen.globalAlpha = this.highlighted.length ? 0.3 : 0.75;
    for (const index of this.order) {
      const [x, y] = this.at(index);
      if (x < -5 || y < -5 || x > this.box.width + 5 || y > this.box.height + 5) continue;
      pen.fillStyle = palette[this.field.index[index]] ?? other;
      pen.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
    }
    pen.globalAlpha = 1;
    const ring = (id, size, fill) => {
      const index = this.indexOf.get(String(id));
      if (index === undefined) return;
      pen.beginPath();
      pen.arc(...this.at(index), size, 0, 2 * Math.PI);
      pen.fillStyle = fill;
      pen.fill();
      pen.lineWidth = 2;
      pen.strokeStyle = color("--paper");
      pen.stroke();
    };
    for (const id of [...this.highlighted].reverse()) ring(id, HIT_RADIUS - 0.5, color("--accent"));
    if (this.center !== null) ring(this.center, 7, color("--differs"));
    if (this.hovered !== null) ring(this.data.ids[this.hovered], HIT_RADIUS + 1, color("--ink")); // the tooltip may be some distance away
    if (this.pointed !== null) ring(this.pointed, 9, color("--accent"));
    this.placeNames();
    this.panel.dataset.highlighted = this.highlightedIndices().length;
    this.panel.dataset.highlightedInView = this.inView(this.highlightedIndices()).length;
    this.panel.dataset.zoom = this.view.zoom.toFixed(2);
  }

  highlightedIndices() {
    return [...this.highlighted, ...(this.center === null ? [] : [this.center])].map((id) => this.indexOf.get(String(id))).filter((index) => index !== undefined);
  }

  inView(indices) {
    return indices.filter((index) => {
      const [x, y] = this.at(index);
      return x >= 0 && y >= 0 && x <= this.box.width && y <= this.box.height;
    });
  }

  // Zooms to the hits in view, else to the points in view, never to an empty center.
  zoomIn() {
    const highlighted = this.inView(this.highlightedIndices());
    const indices = highlighted.length ? highlighted : this.inView(this.order);
    if (indices.length) {
      const { x, y } = this.data;
      const [medianX, medianY] = [median(indices.map((index) => x[index])), median(indices.map((index) => y[index]))];
      const away = (index) => Math.hypot(x[index] - medianX, y[index] - medianY);
      const middle = indices.reduce((best, index) => (away(index) < away(best) ? index : best));
      Object.assign(this.view, { x: x[middle] / GRID_SIZE, y: y[middle] / GRID_SIZE });
    }
    this.zoom(ZOOM_STEP);
  }

  nearest(x, y) {
    let [best, least] = [null, PICK_RADIUS * PICK_RADIUS];
    for (let index = 0; index < this.data.ids.length; index++) {
      const [px, py] = this.at(index);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [index, distance];
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
    const position = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("wheel", (event) => {
      if (!this.data) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...position(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      this.pointers.set(event.pointerId, position(event));
      this.moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.data || !this.box) return;
      if (this.pointers.has(event.pointerId)) this.drag(event.pointerId, position(event));
      else this.hover(...position(event));
    });
    canvas.addEventListener("pointerup", (event) => {
      this.pointers.delete(event.pointerId);
      if (!this.data || this.moved > 4) return;
      const index = this.nearest(...position(event));
      if (index !== null) this.onSelect(this.data.ids[index]);
    });
    canvas.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => this.hover(-99, -99));
    for (const button of this.panel.querySelectorAll("[data-map]")) {
      button.addEventListener("click", () => {
        if (!this.data || !this.box) return;
        if (button.dataset.map === "in") this.zoomIn();
        else this.zoom(button.dataset.map === "all" ? 0 : 1 / ZOOM_STEP);
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
    const index = this.nearest(x, y);
    if (index === this.hovered) return;
    this.hovered = index;
    this.draw();
    clearTimeout(this.timer);
    this.canvas.style.cursor = index === null ? "grab" : "pointer";
    this.tip.hidden = index === null;
    if (index === null) return;
    const id = this.data.ids[index];
    const value = this.field.values[this.field.index[index]];
    const label = value === undefined ? "" : String(value);
    show(this.tip, el("b", {}, String(id)), label ? el("span", { class: "quiet" }, ` ${label}`) : null);
    this.placeTip(index);
    this.timer = setTimeout(async () => {
      const document_ = await get(`/v1/document?id=${encodeURIComponent(id)}`).catch(() => null);
      if (!document_ || this.hovered !== index) return;
      const [name, ...rest] = heading(document_);
      const excerpt = cut(snippet(splitTitle(document_.text).body, new Set()), TIP_LENGTH);
      show(this.tip, el("b", {}, name), rest, label ? el("span", { class: "quiet" }, ` ${label}`) : null, el("p", {}, excerpt));
      this.placeTip(index);
    }, 120);
  }

  // Places the tooltip next to its point where it covers no hit, else below the map.
  placeTip(index) {
    const [x, y] = this.at(index);
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const highlighted = this.highlightedIndices().map((one) => this.at(one));
    const isFree = ([left, top]) => {
      const [right, bottom] = [left + width, top + height];
      const isInside = left >= 0 && top >= 0 && right <= this.box.width && bottom <= this.box.height;
      return isInside && !highlighted.some(([px, py]) => px > left - HIT_RADIUS && px < right + HIT_RADIUS && py > top - HIT_RADIUS && py < bottom + HIT_RADIUS);
    };
    const across = [x + TIP_GAP, x - TIP_GAP - width, x - width / 2];
    const down = [y + TIP_GAP, y - TIP_GAP - height];
    const below = [Math.max(0, Math.min(x - width / 2, this.box.width - width)), this.box.height + TIP_GAP];
    const [left, top] = down.flatMap((one) => across.map((other) => [other, one])).find(isFree) ?? below;
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${top}px`;
  }
}

function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}
