"use strict";

// The other views: captures, injections, and decisions that wait for the person.

const MOST_LISTED = 400;
const DAYS_SHOWN = 30;

/** A bar a day for the last 30; `series` are [class, name, times]. `chosen` gets a day, or "" for all. */
function timeline(now, series, day, chosen) {
  const counts = series.map(([, , times]) => times.reduce((days, time) => days.set(localDay(time), (days.get(localDay(time)) ?? 0) + 1), new Map()));
  const today = new Date(now);
  const days = Array.from({ length: DAYS_SHOWN }, (_, back) =>
    localDay(new Date(today.getFullYear(), today.getMonth(), today.getDate() - (DAYS_SHOWN - 1 - back), 12)),
  );
  const most = Math.max(1, ...days.map((each) => counts.reduce((sum, of) => sum + (of.get(each) ?? 0), 0)));
  const bar = (each, at) => {
    const numbers = counts.map((of) => of.get(each) ?? 0);
    const summary = `${each}: ${series.map(([, name], which) => `${numbers[which]} ${name}`).join(", ")}`;
    const parts = numbers.map((number, which) => {
      const part = el("span", { class: series[which][0] });
      part.style.height = `${(number / most) * 100}%`;
      return part;
    });
    const button = { class: "bar", title: summary, "aria-label": summary, "aria-pressed": String(each === day), "data-day": each };
    const label = at === 0 || each.endsWith("-01") || at === DAYS_SHOWN - 1 || each === day ? each.slice(5) : "";
    return el("div", { class: "day" }, el("button", { ...button, onclick: () => chosen(each === day ? "" : each) }, parts.reverse()), el("span", { class: "label" }, label));
  };
  const key = series.map(([kind, name, times]) => el("span", { class: "key" }, el("i", { class: kind }), `${times.length.toLocaleString("en")} ${name}`));
  return el(
    "figure",
    { class: "timeline" },
    el("figcaption", {}, key, day && el("button", { class: "quiet", onclick: () => chosen("") }, `Only ${day}: show all`)),
    el("div", { class: "bars", role: "group", "aria-label": "Days" }, days.map(bar)),
  );
}

/** The first of many, and how many more there are. */
function some(items, draw, list = "ol") {
  const more = items.length - MOST_LISTED;
  return [el(list, { class: "cards" }, items.slice(0, MOST_LISTED).map(draw)), more > 0 && el("p", { class: "hint" }, `and ${more.toLocaleString("en")} more; a day above shows its own`)];
}

function nothing(text) {
  return el("p", { class: "nothing" }, text);
}

// --- captures ------------------------------------------------------------------------------------------

function capturesView(store, state, go, redraw) {
  const captured = store.data.captured;
  if (!captured.length) return [nothing("Nothing was captured here yet. `forgectl status` shows if capture is on.")];
  const [kept, refused] = [captured.filter((each) => each.memory_id), captured.filter((each) => !each.memory_id)];
  const series = [["kept", "saved", kept.map((each) => each.at)], ["refused", "not saved", refused.map((each) => each.at)]];
  const chosen = captured.filter((each) => !state.captureDay || localDay(each.at) === state.captureDay);
  return [
    timeline(store.data.made_at, series, state.captureDay, (day) => redraw({ captureDay: day })),
    el("p", { class: "hint" }, "Saved statements are listed for 30 days, the others for 7."),
    some(chosen, (each) => capturedCard(store, each, go)),
  ];
}

function capturedCard(store, each, go) {
  const key = each.memory_id && keyOf({ root: each.root, id: each.memory_id });
  const said = each.text ? foreign(each.text) : el("em", {}, each.memory_id ? "(forgotten)" : "(no text)");
  const whence = `${each.agent || "an unnamed agent"}, ${each.kind.replaceAll("_", " ")}`;
  return el(
    "li",
    { class: each.memory_id ? "kept" : "refused" },
    el("p", {}, el("strong", {}, each.memory_id ? "Saved" : "Not saved"), ` ${localTime(each.at)} `, el("span", { class: "hint" }, foreign(whence))),
    el("p", { class: "said", dir: "auto" }, store.byKey.has(key) ? el("button", { class: "link", onclick: () => go(key) }, said) : said),
    each.reason && el("p", {}, "Why not: ", foreign(each.reason)),
    el("p", { class: "hint" }, foreign(WHY[each.why] ?? each.why), each.why && "; ", "judged by ", foreign(each.classifier), each.memory_id && !each.is_there && "; no longer there"),
  );
}

// --- injections ----------------------------------------------------------------------------------------

function injectionsView(store, state, go, redraw) {
  const turns = store.data.injections;
  if (!turns.length) return [nothing("No memory was injected here in the last 30 days.")];
  const chosen = turns.filter((turn) => !state.injectionDay || localDay(turn.at) === state.injectionDay);
  const series = [["given", "turns with memories", turns.map((turn) => turn.at)]];
  return [
    timeline(store.data.made_at, series, state.injectionDay, (day) => redraw({ injectionDay: day })),
    worth(store, chosen, go),
    el("h3", {}, "Turn by turn"),
    some(chosen, (turn) => turnCard(store, turn, go)),
  ];
}

/** Table of the memories that were injected most, with the number of strong matches. */
function worth(store, turns, go) {
  const rows = new Map();
  for (const turn of turns)
    for (const memory of turn.memories) {
      const key = keyOf(memory);
      const row = rows.get(key) ?? { key, memory, turns: 0, agents: new Set(), sessions: new Set(), strong: 0 };
      row.turns += 1;
      row.agents.add(turn.agent || "?");
      row.sessions.add(JSON.stringify([turn.agent, turn.session_id]));
      row.strong += memory.admitted_as === "strong";
      rows.set(key, row);
    }
  const most = [...rows.values()].sort((one, other) => other.turns - one.turns || one.key.localeCompare(other.key)).slice(0, 15);
  const heads = store.entries.filter((entry) => entry.kind === "memory" && entry.isHead);
  const unused = heads.filter((entry) => !store.chain(entry).some((each) => store.turnsOf.has(each.key))).length;
  const cell = (text) => el("td", { class: "number" }, text);
  const line = (row) =>
    el("tr", {}, el("td", {}, memoryLink(store, row.memory, go)), cell(row.turns), cell(row.sessions.size), cell(row.strong), el("td", {}, foreign([...row.agents].sort().join(", "))));
  return [
    el("h3", {}, "Most often injected"),
    el("div", { class: "wide" }, el("table", {}, el("thead", {}, el("tr", {}, ["Memory", "Turns", "Sessions", "Strong matches", "Agents"].map((each) => el("th", { scope: "col" }, each)))), el("tbody", {}, most.map(line)))),
    el("p", { class: "hint" }, `${unused.toLocaleString("en")} of ${counted(heads.length, "memory", "memories")} never injected in the last 30 days. The table counts injections; it cannot show if the agent used them.`),
  ];
}

function turnCard(store, turn, go) {
  const where = turn.roots.find((root) => store.data.workspace === root || store.data.workspace.startsWith(`${root}/`)) ?? turn.roots[0] ?? "";
  const session = turn.session_id ? `session ${turn.session_id}` : "no session";
  return el(
    "li",
    {},
    el("p", {}, el("strong", {}, foreign(turn.agent || "an unnamed agent")), ` ${localTime(turn.at)} `, el("span", { class: "hint" }, foreign([session, turn.turn_id && `turn ${turn.turn_id}`, turn.strategy, where].filter(Boolean).join(", ")))),
    el("ul", { class: "given" }, turn.memories.map((memory) => el("li", {}, memoryLink(store, memory, go), " ", el("span", { class: `badge ${memory.admitted_as}` }, foreign(memory.admitted_as || memory.found_by)), " ", el("span", { class: "hint" }, reasonOf(memory))))),
  );
}

function memoryLink(store, memory, go) {
  const key = keyOf(memory);
  const entry = store.byKey.get(key);
  if (!entry) return el("span", {}, el("code", {}, foreign(memory.id)), el("span", { class: "hint" }, " (not shown here)"));
  return el("button", { class: "link", onclick: () => go(key) }, foreign(firstLine(entry.content, 120)));
}

// --- decisions for the person --------------------------------------------------------------------------

function needsAttention(entry) {
  return entry.kind !== "memory" || (entry.isHead && (entry.stale.length > 0 || entry.concurrent_heads.length > 0));
}

function attentionView(store, state, go) {
  const found = store.entries.filter(needsAttention);
  if (!found.length) return [nothing("Nothing waits for you.")];
  const groups = [
    ["Proposals that wait for you", (entry) => entry.kind === "waiting"],
    ["Files of repositories that are not used yet", (entry) => entry.kind === "withheld"],
    ["Stale: files that they depend on changed", (entry) => entry.kind === "memory" && entry.stale.length > 0],
    ["Forks: two versions conflict", (entry) => entry.kind === "memory" && !entry.stale.length],
  ];
  const card = (entry) =>
    el("li", {}, el("p", { class: "said" }, el("button", { class: "link", onclick: () => go(entry.key) }, foreign(firstLine(entry.content) || entry.id))), troubles(store, entry));
  return groups.map(([title, isOf]) => {
    const those = found.filter(isOf);
    return those.length ? [el("h3", {}, `${title} (${those.length.toLocaleString("en")})`), some(those, card)] : null;
  }).flat(2);
}
