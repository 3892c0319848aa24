// All items that are called the same, side by side: the eye finds the one that does not belong. For owners.

import { $, el, show } from "./dom.js";
import { ask } from "./net.js";
import { words } from "./label.js";

const PAGE = 60;
const OTHERS = { none: "None of these", broken: "Broken", disputed: "Disputed", unclear: "Nobody is sure" };

export async function showItems(project, change) {
  const choice = $("items-choice");
  const before = choice.value;
  choice.replaceChildren(...project.classes.map((name, at) => el("option", { value: `labelled&answer=${at}` }, name)),
    ...Object.entries(OTHERS).map(([status, name]) => el("option", { value: status }, name)));
  if (before) choice.value = before;
  choice.onchange = () => list(project, change);
  $("items").showModal();
  choice.focus();
  await list(project, change);
}

let asked = 0;
async function list(project, change, after = 0) {
  asked += 1;
  const mine = asked;
  if (!after) { $("items-list").replaceChildren(); $("items-text").textContent = "…"; }
  const found = await ask("GET", `/api/items?status=${$("items-choice").value}&after=${after}&limit=${PAGE}`).catch(() => null);
  if (mine !== asked) return; // another class was chosen meanwhile
  if (!found) { $("items-text").textContent = "No connection; choose again in a moment."; return; }
  $("items-text").textContent = found.length || after ? `In the order of the ${project.kind === "image" ? "folder" : "table"}. What looks wrong: change your own answer, or have somebody else asked.` : "None.";
  $("items-list").append(...found.map((item) => card(item, project, change)));
  show($("items-more"), found.length === PAGE);
  $("items-more").onclick = () => list(project, change, found.at(-1).number);
}

function card(item, project, change) {
  const called = item.name || item.text || "without a name";
  const note = el("span", { class: "soft", role: "status" });
  const again = async () => {
    try {
      await ask("POST", `/api/items/${item.item}/again`);
      note.textContent = "Somebody else is asked.";
      note.classList.add("only-heard"); // who sees has it on the button
      button.disabled = true;
      button.textContent = "Asked";
      button.setAttribute("aria-label", `Asked: ${called}`);
    } catch (problem) { note.textContent = problem.gone ? "No connection." : `${problem.message[0].toUpperCase()}${problem.message.slice(1)}.`; }
  };
  const own = item.own;
  const button = own
    ? el("button", { class: "quiet", "aria-label": `Change: ${called}`, onclick: () => { $("items").close(); change(own); } }, "Change")
    : el("button", { class: "quiet", "aria-label": `Ask again: ${called}`, onclick: again }, "Ask again");
  const several = item.votes > 1 && item.confidence < 1 ? `${Math.round(item.confidence * item.votes)} of ${item.votes} agree` : "";
  const differs = own && item.answer !== null && own.answer !== item.answer ? `you: ${words(project, own)}` : "";
  return el("li", {},
    project.kind === "image" ? el("img", { src: `/api/items/${item.item}/picture?size=320`, alt: "", loading: "lazy" }) : el("div", { class: "excerpt", dir: "auto" }, item.text),
    el("div", { class: "under" }, el("span", { class: "called", dir: "auto", title: item.name }, item.name.split("/").at(-1)), own || ["labelled", "none", "broken"].includes($("items-choice").value.split("&")[0]) ? button : null),
    several || differs ? el("div", { class: "soft" }, [several, differs].filter(Boolean).join("; ")) : null, note);
}
