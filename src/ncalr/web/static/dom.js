// Making elements. Text is always text: nothing here, or anywhere, turns a string into HTML.

export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const node = tag.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Also where the page came without TLS, where browsers hide crypto.randomUUID.
export function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

export function show(node, visible) {
  node.hidden = !visible;
}

export function say(text) {
  $("announce").textContent = "";
  requestAnimationFrame(() => { $("announce").textContent = text; });
}

// A name as it is, that may go on in the next line after what joins its words: "staffordshire_bull_terrier".
export const breakable = (name) => name.match(/[^_/.-]*[_/.-]*/g).filter(Boolean).flatMap((part, at) => (at ? [el("wbr"), part] : [part]));

export const percent = (share, digits = 0) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(digits)}\u202f%`);

export function ago(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  return `${Math.round(seconds / 3600)} h ago`;
}
