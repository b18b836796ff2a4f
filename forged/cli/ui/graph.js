"use strict";

// Chains and links, drawn: older versions to the left, at most MOST_DRAWN of them. The same memories always
// lie in the same places. Layout is a function of keys and links; drawing knows nothing but its result.

const MOST_DRAWN = 300;
const MOST_SHARING = 40;
const FAR_PX = 150;
const LABELS_UP_TO = 60;
const LABEL_LETTERS = 18;
const FAR_AWAY = 1.9; // times smaller than it is: nobody can read labels then

/** The keys that links lead to from one, nearest first, and whether that is all of them; what many share ends a way. */
function around(net, key) {
  const seen = new Set([key]);
  for (const each of seen)
    for (const link of each !== key && net.linksAt.get(each)?.length > MOST_SHARING ? [] : (net.linksAt.get(each) ?? []))
      for (const next of [link.from, link.to]) {
        if (seen.size >= MOST_DRAWN && !seen.has(next)) return { keys: [...seen], whole: false };
        seen.add(next);
      }
  return { keys: [...seen], whole: true };
}

/** All keys that any link begins or ends at. */
function allLinked(net) {
  return [...net.linksAt.keys()];
}

/** Where each key lies: every connected part by itself, the parts in rows, the largest first. */
function layout(keys, links) {
  const parts = partsOf([...keys].sort(), links);
  parts.sort((one, other) => other.keys.length - one.keys.length);
  const laid = parts.map((part) => laidOut(part));
  const width = Math.max(Math.sqrt(laid.reduce((sum, each) => sum + each.width * each.height, 0)) * 1.4, laid[0]?.width ?? 0);
  const places = new Map();
  let [x, y, high] = [0, 0, 0];
  for (const each of laid) {
    if (x > 0 && x + each.width > width) [x, y, high] = [0, y + high, 0];
    for (const [key, at] of each.places) places.set(key, { x: at.x + x, y: at.y + y });
    x += each.width;
    high = Math.max(high, each.height);
  }
  return places;
}

function partsOf(keys, links) {
  const beside = new Map(keys.map((key) => [key, []]));
  for (const link of links) {
    beside.get(link.from)?.push(link.to);
    beside.get(link.to)?.push(link.from);
  }
  const left = new Set(keys);
  const parts = [];
  for (const key of keys) {
    if (!left.delete(key)) continue;
    const part = new Set([key]);
    for (const each of part) for (const next of beside.get(each)) if (left.delete(next)) part.add(next);
    parts.push({ keys: [...part], links: links.filter((link) => part.has(link.from) && part.has(link.to)) });
  }
  return parts;
}

/** One connected part: every chain is a row, oldest left, and stiff; links pull rows together, all else apart. */
function laidOut({ keys, links }) {
  const rows = partsOf(keys, links.filter((link) => link.name === "supersedes")).map(rowOf);
  const at = new Map(rows.flatMap((row, number) => started(row, number)));
  const bodies = rows.map((row) => row.map(({ key }) => at.get(key)));
  const points = [...at.values()];
  const relations = links.filter((link) => link.name !== "supersedes");
  const rounds = rows.length < 2 ? 0 : keys.length > 80 ? 150 : 400;
  for (let round = 0; round < rounds; round++) {
    for (const point of points) point.dx = point.dy = 0;
    for (let i = 0; i < points.length; i++) for (let j = 0; j < i; j++) if (points[i].row !== points[j].row) push(points[i], points[j]);
    for (const link of relations) pull(at.get(link.from), at.get(link.to));
    const most = 30 * (1 - round / rounds) + 0.5;
    for (const body of bodies) shift(body, most);
  }
  return boxed(at);
}

/** The members of a chain with how many versions are before each, and its place among those with as many. */
function rowOf({ keys, links }) {
  const depth = new Map(keys.map((key) => [key, 0]));
  for (let round = 0, changed = true; changed && round < keys.length; round++) {
    changed = false;
    for (const { from, to } of links)
      if (depth.get(from) <= depth.get(to) && depth.get(to) + 1 < keys.length) changed = Boolean(depth.set(from, depth.get(to) + 1));
  }
  const beside = new Map();
  return keys.map((key) => {
    const place = beside.get(depth.get(key)) ?? 0;
    beside.set(depth.get(key), place + 1);
    return { key, depth: depth.get(key), place };
  });
}

/** Where the members of a row begin: on a spiral of rows. */
function started(row, number) {
  const [turn, far] = [number * 2.399963, Math.sqrt(number) * 90];
  return row.map(({ key, depth, place }) => [
    key,
    { row: number, x: far * Math.cos(turn) + depth * FAR_PX, y: far * Math.sin(turn) + place * 64, dx: 0, dy: 0 },
  ]);
}

function push(one, other) {
  const [x, y] = [one.x - other.x || 0.1, (one.y - other.y || 0.1) * 1.6];
  const strength = (FAR_PX * FAR_PX * 0.4) / (x * x + y * y);
  one.dx += x * strength;
  one.dy += (y * strength) / 1.6;
  other.dx -= x * strength;
  other.dy -= (y * strength) / 1.6;
}

function pull(from, to) {
  const [x, y] = [to.x - from.x, to.y - from.y];
  const strength = Math.hypot(x, y) / FAR_PX / 3;
  from.dx += x * strength;
  from.dy += y * strength * 1.6;
  to.dx -= x * strength;
  to.dy -= y * strength * 1.6;
}

/** Move a row as a whole by what acts on its members, so far at most. */
function shift(body, most) {
  const mean = (field) => body.reduce((sum, point) => sum + point[field], 0) / Math.sqrt(body.length);
  const [x, y] = [mean("dx"), mean("dy")];
  const far = Math.hypot(x, y) || 1;
  for (const point of body) {
    point.x += (x / far) * Math.min(far, most);
    point.y += (y / far) * Math.min(far, most);
  }
}

function boxed(at) {
  const points = [...at.values()];
  const [left, top] = [Math.min(...points.map((p) => p.x)) - 80, Math.min(...points.map((p) => p.y)) - 36];
  for (const point of points) [point.x, point.y] = [point.x - left, point.y - top];
  const [width, height] = [Math.max(...points.map((p) => p.x)) + 80, Math.max(...points.map((p) => p.y)) + 54];
  return { places: at, width, height };
}

// --- drawing -------------------------------------------------------------------------------------------

class GraphView {
  /** `chosen` is told the key of a node that somebody chose. */
  constructor(host, store, chosen) {
    this.host = host;
    this.store = store;
    this.chosen = chosen;
    this.withThings = false;
  }

  /** With what memories speak of, or without. */
  turnThings() {
    if (!this.store.data.things.things.length) return;
    this.withThings = !this.withThings;
    this.show(this.entry?.kind === "thing" ? null : this.entry, this.everything);
    (this.host.querySelector("svg") ?? this.host.querySelector("#things"))?.focus();
  }

  /** What is around an entry, or everything that is linked where that is wanted or the entry is alone. */
  show(entry, everything = false) {
    const net = this.store.net(this.withThings);
    const all = allLinked(net);
    const isAlone = !entry || !net.linksAt.has(entry.key);
    const { keys, whole } = everything || isAlone ? { keys: all, whole: true } : around(net, entry.key);
    [this.entry, this.everything] = [entry, everything];
    const turn = el("button", { class: "quiet", id: "everything", onclick: () => this.show(entry, !everything) }, everything ? "Only around this one" : "All that is linked");
    const mayTurn = !isAlone && keys.length < all.length && all.length <= MOST_DRAWN;
    const things = this.store.data.things.things.length > 0 && el("button", { class: "quiet", id: "things", "aria-pressed": String(this.withThings), title: "What memories speak of (e)", onclick: () => this.turnThings() }, "What they speak of");
    const lonely = entry && isAlone ? "This memory has no other version and no link. " : "";
    this.host.replaceChildren(el("p", { class: "hint" }, lonely, this.told(keys, whole), (everything || mayTurn) && turn, things));
    if (!keys.length || keys.length > MOST_DRAWN) return;
    const inside = new Set(keys);
    this.links = net.links.filter((link) => inside.has(link.from) && inside.has(link.to));
    this.places = layout(keys, this.links);
    this.selected = isAlone ? null : entry.key;
    this.focused = this.selected ?? keys[0];
    this.draw();
  }

  told(keys, whole) {
    if (!keys.length) return "No memory replaced another, and none is linked.";
    if (keys.length > MOST_DRAWN) return `${counted(keys.length, "memory", "memories")} are linked: too many to draw at once. Choose one that has a link.`;
    const near = whole ? "" : `: the nearest ${MOST_DRAWN}`;
    const things = keys.filter((key) => this.store.things.has(key)).length;
    const spoken = things ? ` and ${counted(things, "thing", "things")} that they speak of` : "";
    return `${counted(keys.length - things, "memory", "memories")} with links${spoken}${near}. Left is older; arrows lead to what was replaced or is meant. `;
  }

  draw() {
    const labelled = this.places.size <= LABELS_UP_TO;
    const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 17, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { d: "M0 0 8 4 0 8z" }));
    this.svg = svg(
      "svg",
      { role: "application", tabindex: 0, "aria-label": "Graph of versions and links", class: labelled ? "labelled" : "crowded" },
      svg("defs", {}, arrow),
      this.links.map((link) => this.line(link, labelled)),
      [...this.places].map(([key, place]) => this.node(key, place, labelled)),
    );
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("wheel", (event) => (event.preventDefault(), this.zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, event)), { passive: false });
    this.svg.addEventListener("pointerdown", (event) => this.drag(event));
    this.host.append(this.svg);
    this.fit();
    if (this.selected && this.isFar()) this.near(this.places.get(this.selected));
    this.focus(this.focused);
  }

  line(link, labelled) {
    const [from, to] = [this.places.get(link.from), this.places.get(link.to)];
    const line = svg("line", { x1: from.x, y1: from.y, x2: to.x, y2: to.y, class: { supersedes: "replaces", [SPEAKS_OF]: "speaks" }[link.name] ?? "relates", "marker-end": "url(#arrow)" });
    const name = labelled && link.name !== "supersedes" && link.name !== SPEAKS_OF;
    return [line, name && svg("text", { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 - 3, class: "relation" }, plain(firstLine(link.name, 30)))];
  }

  node(key, place, labelled) {
    const entry = this.store.byKey.get(key);
    const thing = this.store.things.get(key);
    const says = thing ? plain(firstLine(thing.name, 120)) : entry ? plain(firstLine(entry.content, 120)) || "(no text)" : `${plain(JSON.parse(key)[2])}: not there`;
    const kinds = thing ? ["thing"] : entry ? [entry.isHead ? "head" : "older", entry.scope === "user" && "user", entry.stale.length && "stale"] : ["missing"];
    const short = says.length > LABEL_LETTERS ? `${says.slice(0, LABEL_LETTERS).trimEnd()}…` : says;
    return svg(
      "g",
      { id: `node-${key}`, class: ["node", ...kinds, key === this.selected && "selected"].filter(Boolean).join(" "), transform: `translate(${place.x} ${place.y})`, role: "img", "aria-label": says, "data-key": key, onclick: () => this.choose(key) },
      svg("title", {}, says),
      thing ? svg("rect", { x: -8, y: -6, width: 16, height: 12, rx: 3 }) : svg("circle", { r: key === this.selected ? 9 : 7 }),
      (labelled || thing || key === this.selected) && svg("text", { y: 24 }, short),
    );
  }

  choose(key) {
    if (this.dragged) return;
    if (this.store.things.has(key)) {
      this.show(this.store.things.get(key));
      this.svg?.focus();
    } else if (this.store.byKey.has(key)) this.chosen(key);
  }

  focus(key) {
    this.focused = key;
    for (const node of this.svg.querySelectorAll(".node")) node.classList.toggle("focused", node.dataset.key === key);
    this.svg.setAttribute("aria-activedescendant", `node-${key}`);
  }

  // --- keyboard, size and place ---

  key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const sizes = { "+": 1 / 1.25, "=": 1 / 1.25, "-": 1.25 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (ways[event.key]) this.focus(this.towards(...ways[event.key]) ?? this.focused);
    else if (event.key === "Enter" || event.key === " ") this.choose(this.focused);
    else if (sizes[event.key]) this.zoom(sizes[event.key]);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** The nearest node in a direction. */
  towards(x, y) {
    const here = this.places.get(this.focused);
    let best = [Infinity];
    for (const [key, place] of this.places) {
      const [dx, dy] = [place.x - here.x, place.y - here.y];
      const along = dx * x + dy * y;
      const off = Math.abs(dx * y) + Math.abs(dy * x);
      if (along > 1 && off <= along * 2 && along + 2 * off < best[0]) best = [along + 2 * off, key];
    }
    return best[1];
  }

  /** All of it in sight, and a small graph no larger than it is. */
  fit() {
    const points = [...this.places.values()];
    const [right, down] = [Math.max(...points.map((p) => p.x)) + 80, Math.max(...points.map((p) => p.y)) + 54];
    const [left, top] = [Math.min(...points.map((p) => p.x)) - 80, Math.min(...points.map((p) => p.y)) - 36];
    const room = this.svg.getBoundingClientRect();
    const [w, h] = [Math.max(right - left, room.width || 1), Math.max(down - top, room.height || 1)];
    this.view = { x: (left + right - w) / 2, y: (top + down - h) / 2, w, h };
    this.looked();
  }

  /** One place in the middle, as large as it is. */
  near({ x, y }) {
    const { width, height } = this.svg.getBoundingClientRect();
    this.view = { x: x - width / 2, y: y - height / 2, w: width, h: height };
    this.looked();
  }

  /** Whether nobody could read labels. */
  isFar() {
    return this.view.w > this.svg.getBoundingClientRect().width * FAR_AWAY;
  }

  zoom(by, event = null) {
    const room = this.svg.getBoundingClientRect();
    const [px, py] = event ? [(event.clientX - room.x) / room.width, (event.clientY - room.y) / room.height] : [0.5, 0.5];
    const { x, y, w, h } = this.view;
    if (w * by > 40000 || w * by < 100) return;
    this.view = { x: x + (w - w * by) * px, y: y + (h - h * by) * py, w: w * by, h: h * by };
    this.looked();
  }

  drag(start) {
    const { x, y, w } = this.view;
    const scale = w / this.svg.getBoundingClientRect().width;
    this.dragged = false;
    const move = (event) => {
      const [dx, dy] = [event.clientX - start.clientX, event.clientY - start.clientY];
      this.dragged ||= Math.hypot(dx, dy) > 4;
      if (!this.dragged) return;
      Object.assign(this.view, { x: x - dx * scale, y: y - dy * scale });
      this.looked();
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", () => window.removeEventListener("pointermove", move), { once: true });
  }

  looked() {
    const { x, y, w, h } = this.view;
    this.svg.setAttribute("viewBox", `${x} ${y} ${w} ${h}`);
    this.svg.classList.toggle("far", this.isFar());
  }
}
