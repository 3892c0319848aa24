// Notices under the bar. Each kind has a line of its own, so that none pushes another away.

import { $, el, show } from "./dom.js";

const ORDER = ["start", "gone", "answer", "guide", "classes", "others", "training", "worth"];
const lines = new Map();

export function notice(kind, text, action = "", then = () => {}) {
  const known = lines.get(kind);
  if ((known?.dataset.text ?? "") === (text ?? "")) return; // said already; whoever listens would hear it again
  known?.remove();
  lines.delete(kind);
  if (text) {
    const button = action ? el("button", { onclick: () => { notice(kind, null); then(); } }, action) : null;
    lines.set(kind, el("div", { "data-kind": kind, "data-text": text }, text, button));
    const after = ORDER.slice(ORDER.indexOf(kind) + 1).map((later) => lines.get(later)).find(Boolean);
    $("banner").insertBefore(lines.get(kind), after ?? null);
  }
  show($("banner"), lines.size > 0);
}
