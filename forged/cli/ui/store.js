"use strict";

// Data of the page as entries of one form: memories of all versions, files that are not used yet, and
// proposals. Nothing here touches the page.

const STATES = {
  newest: ["Current", (entry) => entry.kind === "memory" && entry.isHead],
  stale: ["Stale", (entry) => entry.isHead && entry.stale.length > 0],
  superseded: ["Superseded", (entry) => entry.kind === "memory" && !entry.isHead],
  withheld: ["Not used yet", (entry) => entry.kind === "withheld"],
  waiting: ["Proposals", (entry) => entry.kind === "waiting"],
  all: ["Everything", () => true],
};

class Store {
  constructor(data) {
    this.data = data;
    this.entries = [
      ...data.memories.map(memoryEntry),
      ...data.withheld.map(({ root, file }) => withheldEntry(root, file)),
      ...data.waiting.map(waitingEntry),
    ];
    this.byKey = new Map(this.entries.map((entry) => [entry.key, entry]));
    this.linksAt = new Map();
    for (const link of this.linksOf())
      for (const key of new Set([link.from, link.to])) this.at(this.linksAt, key).push(link);
    this.turnsOf = new Map();
    for (const turn of data.injections)
      for (const memory of turn.memories) this.at(this.turnsOf, keyOf(memory)).push([turn, memory]);
    this.capturedOf = new Map(
      data.captured.filter((each) => each.memory_id).map((each) => [keyOf({ root: each.root, id: each.memory_id }), each]),
    );
  }

  at(map, key) {
    if (!map.has(key)) map.set(key, []);
    return map.get(key);
  }

  linksOf() {
    const links = [];
    for (const entry of this.entries) {
      if (entry.supersedes) links.push({ from: entry.key, to: keyOf({ root: entry.root, id: entry.supersedes }), name: "supersedes" });
      for (const edge of entry.related)
        links.push({ from: entry.key, to: keyOf({ root: entry.root, id: edge.id }), name: edge.relationship });
    }
    return links;
  }

  /** Return every version of an entry's chain, oldest first. */
  chain(entry) {
    const seen = new Set([entry.key]);
    const waiting = [entry.key];
    for (let key; (key = waiting.pop()) !== undefined; )
      for (const link of this.linksAt.get(key) ?? []) {
        if (link.name !== "supersedes") continue;
        for (const next of [link.from, link.to]) if (!seen.has(next) && seen.add(next)) waiting.push(next);
      }
    const found = [...seen].map((key) => this.byKey.get(key)).filter((each) => each?.kind === "memory");
    return found.sort((one, other) => one.version - other.version || one.created.localeCompare(other.created));
  }

  /** Return the entries that contain every term and pass every filter, newest first. */
  found(terms, filters) {
    const isOf = STATES[filters.state][1];
    return this.entries.filter(
      (entry) =>
        isOf(entry) &&
        ["scope", "category", "origin", "root"].every((field) => !filters[field] || entry[field] === filters[field]) &&
        (!terms.length || (entry.haystack ??= haystackOf(entry), terms.every((term) => entry.haystack.includes(term)))),
    );
  }

  /** Return the values of a field, each with its number of current memories. */
  values(field) {
    const counts = new Map();
    for (const entry of this.entries) counts.set(entry[field], (counts.get(entry[field]) ?? 0) + (entry.isHead ? 1 : 0));
    return [...counts].filter(([value]) => value).sort(([one], [other]) => one.localeCompare(other));
  }

  /** Return true if commands for an entry need `--workspace`. */
  isElsewhere(entry) {
    return entry.scope !== "user" && !`${this.data.workspace}/`.startsWith(`${entry.root}/`);
  }
}

function keyOf({ root, id }, kind = "memory") {
  return JSON.stringify([kind, root, id]);
}

function memoryEntry(memory) {
  return {
    ...memory,
    kind: "memory",
    key: keyOf(memory),
    created: memory.created_at,
    isHead: memory.is_head,
  };
}

const NOTHING = { scope: "repo", category: "", origin: "", version: 0, supersedes: null, related: [], stale: [], entities: [], relations: [] };

function withheldEntry(root, file) {
  const read = { content: file.text, category: file.category, created: file.created_at };
  const entry = { ...NOTHING, ...read, id: file.id, root, kind: "withheld", isHead: false, file };
  return { ...entry, ...NO_MORE, key: keyOf(entry, `withheld ${file.path}`) };
}

function waitingEntry(proposed) {
  const { id, root, content, category, supersedes } = proposed;
  const entry = { ...NOTHING, id, root, content, category, kind: "waiting", isHead: false, proposed };
  return { ...entry, ...NO_MORE, scope: proposed.scope, supersedes, created: proposed.created_at, key: keyOf(entry, "waiting") };
}

const NO_MORE = { concurrent_heads: [], cues: [], evidence: [], redacted: [] };

function haystackOf(entry) {
  return [entry.content, ...entry.cues, ...entry.evidence, ...entry.entities, entry.id, entry.category].join("\n").toLowerCase();
}
