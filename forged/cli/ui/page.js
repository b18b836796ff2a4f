"use strict";

// State of the page: the open view, search, selection, keys and theme.

const VIEWS = ["memories", "captures", "injections", "attention"];
const DRAWN = { captures: capturesView, injections: injectionsView, attention: attentionView };

const byId = (id) => document.getElementById(id);
const store = new Store(JSON.parse(byId("data").textContent));
const ROOTS = store.values("root").map(([root]) => root);
const state = {
  view: "memories",
  query: "",
  filters: { state: "newest", scope: "", category: "", origin: "", root: "" },
  selected: null,
  captureDay: "",
  injectionDay: "",
};
const list = new VirtualList(byId("list"), drawRow, (entry, at) => (select(entry, at), open()));

// --- memories ------------------------------------------------------------------------------------------

function drawRow(entry) {
  const terms = markerOf(termsOf(state.query));
  const about = [localDay(entry.created), entry.category, entry.scope === "user" ? "user" : nameOf(entry.root)];
  const word = entry.kind !== "memory" ? entry.kind : !entry.isHead ? `v${entry.version}, superseded` : entry.stale.length ? "stale" : entry.concurrent_heads.length ? "fork" : "";
  return [
    el("p", { class: "line", dir: "auto" }, foreign(lineAround(entry.content, terms) || "(no text)", terms)),
    el("p", { class: "about" }, el("span", {}, foreign(about.filter(Boolean).join("  "))), word && el("span", { class: "badge warn" }, word)),
  ];
}

function baseName(path) {
  return path.split("/").filter(Boolean).at(-1) ?? path;
}

/** Return the last part of a folder's path, or the whole path where two end alike. */
function nameOf(root) {
  return plain(ROOTS.some((other) => other !== root && baseName(other) === baseName(root)) ? root : baseName(root));
}

function search() {
  const found = store.found(termsOf(state.query), state.filters);
  const isThere = found.includes(state.selected);
  if (state.query && !isThere && found.length) state.selected = found[0];
  list.set(found, found.indexOf(state.selected));
  if (!isThere) byId("list").scrollTop = 0;
  const total = store.entries.filter(STATES[state.filters.state][1]).length;
  const isNarrow = found.length !== total;
  byId("count").textContent = isNarrow ? `${found.length.toLocaleString("en")} of ${total.toLocaleString("en")}` : counted(total, state.filters.state === "newest" ? "memory" : "entry", state.filters.state === "newest" ? "memories" : "entries");
  showSelected();
}

function select(entry, at = list.items.indexOf(entry)) {
  state.selected = entry;
  list.select(at);
  showSelected();
}

function move(by) {
  if (!list.items.length) return;
  const at = Math.min(Math.max(list.selected + by, 0), list.items.length - 1);
  select(list.items[at], at);
}

/** Show an entry, whatever filters and view hide it. */
function go(key) {
  const entry = store.byKey.get(key);
  if (!entry) return;
  if (state.view !== "memories") showView("memories");
  if (!list.items.includes(entry)) {
    Object.assign(state.filters, { state: STATES[state.filters.state][1](entry) ? state.filters.state : "all", scope: "", category: "", origin: "", root: "" });
    byId("query").value = state.query = "";
    drawFilters();
    search();
  }
  select(entry);
  open();
}

function showSelected() {
  const entry = state.selected;
  const detail = byId("detail");
  if (entry) detail.replaceChildren(...detailOf(store, entry, markerOf(termsOf(state.query)), go).flat().filter(Boolean));
  else detail.replaceChildren(nothing(store.entries.length ? "Choose a memory." : "There is no memory yet. Connected agents save lasting statements; `forgectl remember` writes one."));
  byId("pane").scrollTop = 0;
}

/** In a narrow window the text covers the list. */
function open() {
  document.body.classList.add("reading");
}

function close() {
  document.body.classList.remove("reading");
  byId("list").focus();
}

function drawFilters() {
  const choice = (field, title, options) =>
    el(
      "select",
      { "aria-label": title, "data-field": field, onchange: (event) => ((state.filters[field] = event.target.value), event.target.classList.toggle("set", Boolean(event.target.value) && field !== "state"), search()) },
      options.map(([value, text]) => el("option", { value, selected: state.filters[field] === value }, text)),
    );
  const states = Object.entries(STATES).map(([name, [title, isOf]]) => [name, `${title} (${store.entries.filter(isOf).length.toLocaleString("en")})`]);
  const values = (field, all, shown = plain) => [["", all], ...store.values(field).map(([value, count]) => [value, `${shown(value)} (${count.toLocaleString("en")})`])];
  byId("filters").replaceChildren(
    choice("state", "State", states),
    choice("scope", "Scope", values("scope", "All scopes")),
    choice("category", "Category", values("category", "All categories")),
    choice("origin", "Origin", values("origin", "All origins")),
    choice("root", "Folder", values("root", "All folders", nameOf)),
  );
}

// --- views, theme, keys --------------------------------------------------------------------------------

function showView(view) {
  state.view = view;
  for (const each of VIEWS) {
    byId(each).hidden = each !== view;
    byId(`tab-${each}`).setAttribute("aria-selected", String(each === view));
    byId(`tab-${each}`).tabIndex = each === view ? 0 : -1;
  }
  if (view === "memories") return list.render(true);
  const redraw = (changed) => {
    Object.assign(state, changed);
    showView(view);
    byId(view).querySelector(".bar[aria-pressed=true]")?.focus();
  };
  byId(view).replaceChildren(...DRAWN[view](store, state, go, redraw).flat(2).filter(Boolean));
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("forged-theme", theme);
  } catch {} // a browser that keeps nothing for files
}

function back() {
  if (document.activeElement === byId("query") && state.query) return ((byId("query").value = state.query = ""), search());
  if (state.view !== "memories") return showView("memories");
  close();
}

const KEYS = {
  "/": () => (showView("memories"), close(), byId("query").focus(), byId("query").select()),
  j: () => move(1),
  k: () => move(-1),
  ArrowDown: () => move(1),
  ArrowUp: () => move(-1),
  PageDown: () => move(10),
  PageUp: () => move(-10),
  Home: () => move(-Infinity),
  End: () => move(Infinity),
  Enter: () => state.selected && (open(), byId("pane").focus()),
  t: () => setTheme(isDark() ? "light" : "dark"),
  "?": () => byId("help").showModal(),
  Escape: back,
  ...Object.fromEntries(VIEWS.map((view, at) => [String(at + 1), () => showView(view)])),
};
const ONLY_IN_LIST = new Set(["j", "k", "ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End", "Enter"]);
const WHILE_TYPING = new Set(["ArrowDown", "ArrowUp", "Enter", "Escape"]);

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const [at, key] = [event.target, event.key];
  const typing = at === byId("query");
  if (!KEYS[key] || (typing && !WHILE_TYPING.has(key)) || (at.tagName === "SELECT" && key !== "Escape")) return;
  if (ONLY_IN_LIST.has(key) && state.view !== "memories") return;
  if (key === "Enter" && at.closest("button, a, summary")) return;
  if (ONLY_IN_LIST.has(key) && key.length > 1 && at.closest("#pane")) return; // it scrolls there
  event.preventDefault();
  KEYS[key]();
}

function tabKey(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  showView(VIEWS.at((VIEWS.indexOf(state.view) + step) % VIEWS.length));
  byId(`tab-${state.view}`).focus();
}

function begin() {
  try {
    const theme = localStorage.getItem("forged-theme");
    if (theme === "dark" || theme === "light") setTheme(theme);
  } catch {} // likewise
  const { data } = store;
  const where = data.all_repos ? "all repositories" : baseName(data.workspace);
  byId("about").append(foreign(`${where}, as of ${localTime(data.made_at)}`));
  document.title = `forged: ${plain(where)}`;
  byId("about").title = plain(`${data.workspace}, forged ${data.forged}`);
  const waiting = store.entries.filter(needsAttention).length;
  if (waiting) byId("tab-attention").append(el("span", { class: "badge warn" }, waiting.toLocaleString("en")));
  for (const view of VIEWS) byId(`tab-${view}`).addEventListener("click", () => showView(view));
  byId("tabs").addEventListener("keydown", tabKey);
  byId("query").addEventListener("input", (event) => ((state.query = event.target.value), search()));
  byId("back").addEventListener("click", close);
  byId("theme").addEventListener("click", KEYS.t);
  byId("keys").addEventListener("click", KEYS["?"]);
  document.addEventListener("keydown", onKey);
  drawFilters();
  showView("memories");
  state.selected = store.found([], state.filters)[0] ?? null;
  search();
  requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("ready")));
}

begin();
