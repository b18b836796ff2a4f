"use strict";

// Elements, and foreign texts in them. No text becomes markup: all of it becomes text nodes, and an invisible
// character is shown by its number.

const UNSEEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f" +
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0d\\ufeff\\uffa0\\ufff9-\\ufffb" +
    "\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}\\ud800-\\udfff]",
  "gu",
);

/** Create an element with attributes, listeners (`onclick: …`) and children; null and false are left out. */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== false && child !== ""));
  return made;
}

/** Return foreign text as nodes: invisible characters by number, search terms marked. */
function foreign(text, terms = null) {
  const made = document.createDocumentFragment();
  let from = 0;
  for (const found of text.matchAll(UNSEEN)) {
    made.append(...marked(text.slice(from, found.index), terms));
    made.append(el("span", { class: "unseen", title: "an invisible character" }, codeOf(found[0])));
    from = found.index + found[0].length;
  }
  made.append(...marked(text.slice(from), terms));
  return made;
}

function codeOf(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function marked(text, terms) {
  if (!terms || !text) return [text];
  return text.split(terms).map((piece, at) => (at % 2 ? el("mark", {}, piece) : piece));
}

/** Return foreign text as plain text, for labels and titles. */
function plain(text) {
  return text.replace(UNSEEN, codeOf);
}

/** Return the first line with text, at most `most` characters. */
function firstLine(text, most = 240) {
  const line = text.slice(0, 4000).trim().split("\n", 1)[0].trim();
  return line.length > most ? line.slice(0, most).replace(/[\ud800-\udbff]$/, "") + "…" : line;
}

/** Return the first line, or the line of the first match if it is further down. */
function lineAround(text, terms, most = 240) {
  const first = firstLine(text, most);
  if (!terms || first.search(terms) >= 0) return first;
  const at = text.search(terms);
  const from = Math.max(text.lastIndexOf("\n", at) + 1, at - 24);
  return at < 0 ? first : `…${firstLine(text.slice(from), most)}`;
}

/** Split a text into a title (its first line, if short) and the rest. */
function titled(text) {
  const lines = text.trim().split("\n");
  return lines[0].length > 160 ? ["", text.trim()] : [lines[0].trim(), lines.slice(1).join("\n").replace(/^\n+/, "")];
}

// --- search terms --------------------------------------------------------------------------------------

/** Return the words of a query in lower case; words in quotes are one. */
function termsOf(query) {
  return Array.from(query.toLowerCase().matchAll(/"([^"]+)"?|[^\s"]+/g), ([whole, quoted]) => quoted ?? whole);
}

/** Return a pattern of any of the terms, as one group; null for none. */
function markerOf(terms) {
  if (!terms.length) return null;
  const longestFirst = [...terms].sort((one, other) => other.length - one.length);
  return new RegExp(`(${longestFirst.map((term) => term.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("|")})`, "giu");
}

// --- times, counts, commands ---------------------------------------------------------------------------

const DAY_MS = 24 * 3600 * 1000;

/** Return a time of the wire in local time, to the minute; any other text as it is. */
function localTime(time) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return plain(String(time).slice(0, 16));
  const two = (number) => String(number).padStart(2, "0");
  return `${localDay(at)} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** Return the local day of a time. */
function localDay(time) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return "";
  const two = (number) => String(number).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

function counted(number, noun, plural = `${noun}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;
}

/** Return a command line, or null if a value in it has invisible characters. */
function commandOf(...words) {
  if (words.some((word) => word.search(UNSEEN) >= 0 || word.includes("\n") || word.includes("\t"))) return null;
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}

/** Create a command with a button that copies it; `what` describes it. */
function copyable(what, command) {
  if (command === null) return el("p", { class: "hint" }, `${what}no command, because an id or path in it has invisible characters.`);
  const button = el("button", { class: "quiet copy", onclick: () => copied(command, button) }, "Copy");
  return el("div", { class: "command" }, el("span", {}, what), el("code", {}, command), button);
}

async function copied(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Selected: copy it";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

// --- differences ---------------------------------------------------------------------------------------

const MOST_COMPARED = 600;

/** Compare two texts word by word: [["same" | "gone" | "new", text], …]; null if too long. */
function difference(before, after) {
  const [old, now] = [before, after].map((text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? []);
  if (old.length > MOST_COMPARED || now.length > MOST_COMPARED) return null;
  const common = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--)
      common[i][j] = old[i] === now[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const runs = [];
  const add = (kind, piece) => {
    if (runs.length && runs.at(-1)[0] === kind) runs.at(-1)[1] += piece;
    else runs.push([kind, piece]);
  };
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) add("same", old[(j++, i++)]);
    else if (j === now.length || (i < old.length && common[i + 1][j] >= common[i][j + 1])) add("gone", old[i++]);
    else add("new", now[j++]);
  }
  return runs;
}
