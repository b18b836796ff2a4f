"use strict";

// Details of one memory, file or proposal: its text, source, evidence, versions and injections.

const REASONS = {
  strong: "strong match",
  near: "close to the best match",
  weak: "weak match, but nothing matched better",
  search: "found by search",
  link: "linked to an injected memory",
  pinned: "pinned: included at the start of the session",
  injected: "the session had it already",
  correction: "replaced a memory that the session had",
};
const WHY = {
  request: "you asked to remember it",
  rule: "a rule matched what you typed",
  linear: "chosen by the built-in linear model",
  model: "proposed by the chat model",
};
const MOST_TURNS = 12;

/** Return the elements for an entry; `go` shows another entry by its key. */
function detailOf(store, entry, terms, go) {
  const [title, rest] = titled(entry.content);
  return [
    badges(entry),
    title && el("h2", { dir: "auto" }, foreign(title, terms)),
    rest && el("div", { class: "text", dir: "auto" }, foreign(rest, terms)),
    !title && !rest && el("p", { class: "hint" }, "(no text)"),
    troubles(store, entry),
    named("Cues", entry.cues.length && el("ul", {}, entry.cues.map((cue) => el("li", {}, foreign(cue, terms))))),
    named("Evidence", entry.evidence.length && el("ul", {}, entry.evidence.map((each) => evidence(entry, each)))),
    named("Mentions", spoken(entry, terms)),
    named("Versions", versions(store, entry, go)),
    named("Links", links(store, entry, go)),
    named("Injected", entry.kind === "memory" && injected(store, entry)),
    named("About this memory", facts(store, entry)),
  ];
}

function named(title, content) {
  return content ? el("section", {}, el("h3", {}, title), content) : null;
}

function badges(entry) {
  const word = (text, kind = "") => el("span", { class: `badge ${kind}` }, foreign(text));
  return el(
    "p",
    { class: "badges" },
    word(entry.scope === "user" ? "user" : "repo", entry.scope),
    entry.category && word(entry.category),
    entry.version > 0 && word(`v${entry.version}`),
    entry.origin && word(entry.origin),
    entry.kind === "memory" && !entry.isHead && word("superseded", "dim"),
    entry.stale.length > 0 && word("stale", "warn"),
    entry.concurrent_heads.length > 0 && word("fork", "warn"),
    entry.kind !== "memory" && word(entry.kind, "warn"),
  );
}

/** Problems that a person can fix, each with the command for it. */
function troubles(store, entry) {
  const found = [];
  const away = store.isElsewhere(entry) ? ["--workspace", entry.root] : [];
  const run = (what, verb, ...words) => copyable(what, commandOf("forgectl", verb, ...words, ...away));
  if (entry.stale.length && entry.isHead) {
    const again = entry.evidence.flatMap((each) => ["--evidence", each]);
    found.push([
      el("p", {}, "Files that it depends on changed: ", joined(entry.stale), ". Agents see that it may be outdated."),
      again.length > 0 && run("It is still true: ", "edit", entry.id, ...again),
      run("Rewrite it: ", "edit", entry.id),
      run("Remove it: ", "forget", entry.id),
    ]);
  }
  if (entry.concurrent_heads.length)
    found.push([
      el("p", {}, "Two versions conflict; choose which is current. The other one is ", joined(entry.concurrent_heads), "."),
      run("This one is current: ", "edit", entry.id, "--relate", `${entry.concurrent_heads[0]}:supersedes`),
      run("The other one is current: ", "edit", entry.concurrent_heads[0], "--relate", `${entry.id}:supersedes`),
    ]);
  if (entry.redacted.length)
    found.push([el("p", {}, "Its file seems to contain a secret (", joined(entry.redacted), "), which is hidden here and from agents.")]);
  if (entry.kind === "withheld")
    found.push([
      el("p", {}, "Not used yet, no agent gets it: ", foreign(entry.file.why), ". ", entry.file.effect && el("span", {}, "If allowed, it would ", foreign(entry.file.effect), ".")),
      run("Allow this file: ", "review", "--accept", entry.file.sha256.slice(0, 16)),
      run("Decide on all files of this repository: ", "trust"),
    ]);
  if (entry.kind === "waiting")
    found.push([
      el("p", {}, "Waiting for you: ", foreign(entry.proposed.why), "."),
      run("Save it: ", "review", "--keep", entry.id),
      run("Drop it: ", "review", "--drop", entry.id),
      entry.proposed.pasted && el("details", {}, el("summary", {}, "Pasted text next to it"), el("div", { class: "text" }, foreign(entry.proposed.pasted))),
    ]);
  return found.map((each) => el("div", { class: "trouble" }, each));
}

function joined(texts) {
  return texts.flatMap((text, at) => [at ? ", " : "", el("code", {}, foreign(text))]);
}

function spoken(entry, terms) {
  const names = entry.entities.length > 0 && el("p", {}, entry.entities.flatMap((name, at) => [at ? ", " : "", foreign(name, terms)]));
  const ties = entry.relations.map(({ source, relation, target }) => el("li", {}, foreign(`${source} ${relation} ${target}`, terms)));
  return names && [names, ties.length > 0 && el("ul", {}, ties)];
}

function evidence(entry, each) {
  const changed = entry.stale.some((path) => each === path || each.startsWith(`${path}:`));
  return el("li", {}, el("code", {}, foreign(each)), changed && [" ", el("span", { class: "badge warn" }, "changed")]);
}

// --- versions, links, injections -----------------------------------------------------------------------

function versions(store, entry, go) {
  const chain = store.chain(entry);
  if (entry.kind !== "memory" || chain.length < 2) return null;
  const item = (each) => {
    const before = each.supersedes && store.byKey.get(keyOf({ root: each.root, id: each.supersedes }));
    const here = each.key === entry.key;
    return el(
      "li",
      { class: here ? "here" : "" },
      el("button", { class: "link", onclick: () => go(each.key), "aria-current": here && "true" }, `v${each.version}`),
      ` ${localTime(each.created)} `,
      each.isHead && el("span", { class: "badge" }, "current"),
      before ? changes(before.content, each.content, here) : el("p", {}, foreign(firstLine(each.content))),
    );
  };
  return el("ol", { class: "versions" }, [...chain].reverse().map(item));
}

/** Differences between two versions, computed when the element is opened. */
function changes(before, after, open) {
  if (before === after) return el("p", { class: "hint" }, "the same text");
  const text = el("p", { class: "changes", dir: "auto" });
  const compare = () => text.hasChildNodes() || text.append(...compared(before, after));
  if (open) compare();
  return el("details", { open, ontoggle: compare }, el("summary", {}, "What changed"), text);
}

function compared(before, after) {
  const runs = difference(before, after);
  if (runs === null) return [foreign(firstLine(after)), " (too long to compare here)"];
  const tags = { same: "span", gone: "del", new: "ins" };
  return runs.map(([kind, text]) => el(tags[kind], {}, foreign(text)));
}

function links(store, entry, go) {
  const own = (store.linksAt.get(entry.key) ?? []).filter((link) => link.name !== "supersedes");
  if (!own.length) return null;
  const item = (link) => {
    const [other, way] = link.from === entry.key ? [link.to, "→"] : [link.from, "←"];
    const found = store.byKey.get(other);
    const name = el("span", { class: "relation" }, `${way} `, foreign(link.name), " ");
    if (!found) return el("li", {}, name, el("code", {}, foreign(JSON.parse(other)[2])), " (no longer there)");
    return el("li", {}, name, el("button", { class: "link", onclick: () => go(other) }, foreign(firstLine(found.content, 100))));
  };
  return el("ul", { class: "links" }, own.map(item));
}

/** Turns of the last 30 days that got the memory. */
function injected(store, entry) {
  const turns = store.turnsOf.get(entry.key) ?? [];
  if (!turns.length) return el("p", { class: "hint" }, "Never injected in the last 30 days.");
  const item = ([turn, memory]) =>
    el("li", {}, `${localTime(turn.at)} `, el("strong", {}, foreign(turn.agent || "an unnamed agent")), " ", el("span", { class: "hint" }, reasonOf(memory)));
  const sessions = new Set(turns.map(([turn]) => JSON.stringify([turn.agent, turn.session_id]))).size;
  const searched = Math.max(...turns.map(([, memory]) => memory.sessions));
  return [
    el("p", {}, `${counted(turns.length, "turn")} of ${counted(sessions, "session")} in the last 30 days${searched ? `; ${counted(searched, "session")} found this version by search` : ""}.`),
    el("ul", {}, turns.slice(0, MOST_TURNS).map(item)),
    turns.length > MOST_TURNS && el("p", { class: "hint" }, `and ${turns.length - MOST_TURNS} earlier ones`),
  ];
}

function reasonOf(memory) {
  return REASONS[memory.admitted_as] ?? REASONS[memory.found_by] ?? plain(memory.admitted_as || memory.found_by);
}

function facts(store, entry) {
  const captured = store.capturedOf.get(entry.key);
  const pairs = [
    ["Id", entry.id],
    ["Folder", entry.root],
    ["File", entry.path || entry.file?.path],
    ["Created", localTime(entry.created)],
    ["Updated", entry.updated_at && entry.updated_at !== entry.created ? localTime(entry.updated_at) : ""],
    ["Session", entry.session_id ?? entry.proposed?.session_id],
    ["Agent", captured?.agent ?? entry.proposed?.agent],
    ["Captured", captured && `${WHY[captured.why] ?? captured.why}; judged by ${captured.classifier}`],
    ["Trigger", entry.trigger],
    ["Replaces", entry.supersedes],
  ];
  return el("dl", {}, pairs.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, foreign(value))]));
}
