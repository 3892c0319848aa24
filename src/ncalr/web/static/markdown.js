// A small part of Markdown as elements: headings, lists, paragraphs, **bold**, *italic*, `code`. Everything else is text.

import { el } from "./dom.js";

export function markdown(text) {
  const out = [];
  let list = null;
  for (const block of text.replace(/\r/g, "").split("\n")) {
    const line = block.trimEnd();
    const heading = /^(#{1,3})\s+(.*)$/.exec(line);
    const item = /^\s*[-*]\s+(.*)$/.exec(line);
    if (item) {
      if (!list) { list = el("ul"); out.push(list); }
      list.append(el("li", {}, ...inline(item[1])));
      continue;
    }
    list = null;
    if (heading) out.push(el(`h${heading[1].length + 1}`, {}, ...inline(heading[2])));
    else if (line.trim()) out.push(el("p", {}, ...inline(line)));
  }
  return out;
}

function inline(text) {
  const parts = [];
  const pattern = /\*\*([^*]+)\*\*|\*([^*]+)\*|`([^`]+)`/g;
  let at = 0;
  for (let match = pattern.exec(text); match; match = pattern.exec(text)) {
    parts.push(text.slice(at, match.index));
    if (match[1]) parts.push(el("strong", {}, match[1]));
    else if (match[2]) parts.push(el("em", {}, match[2]));
    else parts.push(el("code", {}, match[3]));
    at = match.index + match[0].length;
  }
  parts.push(text.slice(at));
  return parts.filter((part) => part !== "");
}
