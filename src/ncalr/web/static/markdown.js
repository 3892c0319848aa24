// A part of Markdown as elements: headings, lists (with dots or numbers), tables, paragraphs, **bold**, *italic*, `code`,
// links to the web. Everything else is text.

import { el } from "./dom.js";

export function markdown(text) {
  const out = [];
  const lines = text.replace(/\r/g, "").split("\n").map((line) => line.trimEnd());
  let list = null;
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at];
    const heading = /^(#{1,3})\s+(.*)$/.exec(line);
    const item = /^\s*(?:[-*]|(\d+)[.)])\s+(.*)$/.exec(line);
    if (item) {
      const tag = item[1] ? "ol" : "ul";
      if (list?.localName !== tag) { list = el(tag, tag === "ol" && item[1] !== "1" ? { start: item[1] } : {}); out.push(list); }
      list.append(el("li", { dir: "auto" }, ...inline(item[2])));
      continue;
    }
    list = null;
    if (cells(line) && isRule(lines[at + 1])) {
      let end = at + 2;
      while (cells(lines[end] ?? "")) end += 1;
      out.push(table(cells(line), lines.slice(at + 2, end).map(cells)));
      at = end - 1;
    } else if (heading) out.push(el(`h${heading[1].length + 1}`, { dir: "auto" }, ...inline(heading[2])));
    else if (line.trim()) out.push(el("p", { dir: "auto" }, ...inline(line)));
  }
  return out;
}

// | a | b |
function cells(line) {
  const row = line.trim();
  return /^\|.*\|$/.test(row) && row.length > 1 ? row.slice(1, -1).split("|").map((cell) => cell.trim()) : null;
}

// |---|:-:|, the line under the head of a table
const isRule = (line) => (line ? cells(line) : null)?.every((cell) => /^:?-+:?$/.test(cell));

function table(head, rows) {
  const row = (tag, each, more = {}) => el("tr", {}, ...each.slice(0, head.length).map((cell) => el(tag, { dir: "auto", ...more }, ...inline(cell))));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" },
    el("table", {}, el("thead", {}, row("th", head, { scope: "col" })), el("tbody", {}, ...rows.map((each) => row("td", each)))));
}

function inline(text) {
  const parts = [];
  // a picture ![words](address) is a link too: pages from elsewhere are not fetched from here
  const pattern = /\*\*([^*]+)\*\*|\*([^*]+)\*|`([^`]+)`|!?\[([^\][]+)\]\(([^\s()]+(?:\([^\s()]*\)[^\s()]*)*)\)|(https?:\/\/[^\s<>()]*[^\s<>().,;:!?'"*])/g;
  let at = 0;
  for (let match = pattern.exec(text); match; match = pattern.exec(text)) {
    parts.push(text.slice(at, match.index));
    const [whole, bold, italic, code, words, address, bare] = match;
    if (bold) parts.push(el("strong", {}, ...inline(bold)));
    else if (italic) parts.push(el("em", {}, ...inline(italic)));
    else if (code) parts.push(el("code", {}, code));
    else parts.push(link(address ?? bare, words ?? bare) ?? whole);
    at = match.index + whole.length;
  }
  parts.push(text.slice(at));
  return parts.filter((part) => part !== "");
}

// Addresses of the web and no others: javascript: and the like stay text.
function link(address, words) {
  if (!/^https?:\/\//i.test(address)) return null;
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, words);
}
