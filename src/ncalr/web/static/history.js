// Your answers, the newest first, to look at and to change.

import { $, el, show } from "./dom.js";
import { ask } from "./net.js";
import { words } from "./label.js";

const PAGE = 100;

export async function showHistory(project, outbox, change) {
  const waiting = outbox.waiting().length;
  $("outbox-text").textContent = waiting ? `${waiting} answers are still on their way.` : "All your answers are stored.";
  $("history-list").replaceChildren();
  show($("history-more"), false);
  if (!$("history").open) $("history").showModal();
  const older = async (before) => {
    const entries = await ask("GET", `/api/history?limit=${PAGE}${before ? `&before=${before}` : ""}`).catch(() => null);
    if (!entries) { $("outbox-text").textContent = "No connection; open this again in a moment."; return; }
    $("history-list").append(...entries.map((entry) => line(entry, project, change)));
    show($("history-more"), entries.length === PAGE);
    $("history-more").onclick = () => older(entries.at(-1).seq);
  };
  await older(null);
}

function line(entry, project, change) {
  return el("li", {},
    project.kind === "image" ? el("img", { src: `/api/items/${entry.item}/picture?size=320`, alt: "", loading: "lazy" }) : null,
    el("span", { class: "words", dir: "auto" }, entry.text ?? entry.name ?? ""), el("b", { dir: "auto" }, words(project, entry)),
    el("button", { class: "quiet", onclick: () => { $("history").close(); change(entry); } }, "Change"));
}
