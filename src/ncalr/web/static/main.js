// The page: come in, choose a view, keep the bar honest.

import { $, el, say, show, uuid } from "./dom.js";
import { ask, whoami } from "./net.js";
import { Outbox } from "./outbox.js";
import { Labelling, freshness } from "./label.js";
import { isWriting, keyOf, meaning, recentKey } from "./keys.js";
import { markdown } from "./markdown.js";
import { prepareStage, reset, zoom } from "./stage.js";
import { showTeam } from "./team.js";

const VIEWS = ["label", "review", "adjudicate", "team"];
let me = null;
let project = null;
let outbox = null;
let labelling = null;
let view = "label";
let count = { items: 0, closed: 0 };

// -- coming in

const token = new URLSearchParams(location.hash.slice(1)).get("enter");
if (token) history.replaceState(null, "", "/"); // a link is not left lying in the address bar

function theme(next) {
  const chosen = next ?? localStorage.getItem("ncalr-theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = chosen;
  if (next) localStorage.setItem("ncalr-theme", next);
}

async function begin() {
  theme();
  prepareStage();
  wire();
  if (token) {
    try {
      const { kind } = await ask("POST", "/api/link", { token });
      if (kind === "invitation") return door("Welcome", "You were invited to label. What may the others call you?", true);
      await ask("POST", "/api/enter", { token });
    } catch (problem) {
      if (!(await inside())) return door("Come in", problem.message);
    }
  }
  if (await inside()) return start();
  return door("Come in", "Open the link you were given, or paste it here.");
}

async function inside() {
  try { me = await whoami(); return true; } catch (problem) {
    if (problem.gone) { banner("The server does not answer.", "Try again", () => location.reload()); }
    return false;
  }
}

function door(title, text, named = false) {
  document.body.dataset.view = "door";
  only("door");
  $("door-title").textContent = title;
  $("door-text").textContent = text;
  show($("door-name"), named);
  show($("door-link"), !named);
  $(named ? "name" : "token").focus();
  $("door-form").onsubmit = async (event) => {
    event.preventDefault();
    const given = named ? token : $("token").value.trim().replace(/^.*enter=/, "");
    try {
      await ask("POST", "/api/enter", { token: given, ...(named ? { name: $("name").value } : {}) });
      me = await whoami();
      if (outbox) { outbox.resume(); banner(null); choose(view); } else start();
    } catch (problem) { $("door-error").textContent = problem.message; }
  };
}

async function start() {
  project = await ask("GET", "/api/project");
  document.title = `${project.name} · ncalr`;
  outbox = new Outbox(me.key, outboxChanged);
  let tab = sessionStorage.getItem("ncalr-tab");
  if (!tab || performance.getEntriesByType("navigation")[0]?.type === "navigate") tab = uuid();
  sessionStorage.setItem("ncalr-tab", tab);
  labelling = new Labelling(project, me, outbox, tab, { out, connected, empty, working, answered, refresh, history: showHistory, view: mark });
  outbox.tell();
  outbox.kick();
  guidelines();
  keysHelp();
  show($("view-team"), me.role !== "annotator");
  const wanted = location.hash.slice(1);
  refresh();
  setInterval(refresh, 4000);
  await choose(VIEWS.includes(wanted) ? wanted : "label");
}

function out() {
  if (outbox.stopped !== "out") { outbox.stopped = "out"; outbox.tell(); }
  door("Your session has ended", "Nothing is lost: what you answered waits in this browser and is sent as soon as you are back. Open a new link, or paste it here.");
}

// -- views

function only(id) {
  for (const each of ["work", "empty", "team", "door"]) show($(each), each === id);
  show($("bar"), id !== "door");
}

function mark(next) {
  view = next;
  document.body.dataset.view = next;
  for (const name of VIEWS) {
    if (name === next) $(`view-${name}`).setAttribute("aria-current", "page");
    else $(`view-${name}`).removeAttribute("aria-current");
  }
}

async function choose(next) {
  mark(next);
  history.replaceState(null, "", next === "label" ? "/" : `#${next}`);
  if (next === "team") {
    only("team");
    await showTeam(me, project).catch((problem) => (problem.out ? out() : connected(false)));
    return;
  }
  await labelling.open(next);
}

function working() { only("work"); clearTimeout(lookAgain); }

let lookAgain = 0;
function empty(rest, purpose) {
  only("empty");
  document.body.dataset.item = "";
  const actions = [];
  const { title, text } = emptyWords(rest, purpose);
  $("empty-title").textContent = title;
  $("empty-text").textContent = text;
  if (labelling.done.length) actions.push(el("button", { onclick: () => labelling.undo() }, "Undo the last answer"));
  if (purpose !== "label") actions.push(el("button", { class: "primary", onclick: () => choose("label") }, "Back to labelling"));
  else if (count.review) actions.push(el("button", { class: "primary", onclick: () => choose("review") }, "Take a second look"));
  if (me.role !== "annotator") actions.push(el("button", { onclick: () => choose("team") }, "Team view"));
  $("empty-actions").replaceChildren(...actions);
  clearTimeout(lookAgain);
  lookAgain = setTimeout(() => { if (!$("empty").hidden) labelling.open(labelling.purpose); }, rest?.done ? 15000 : 3000);
}

function emptyWords(rest, purpose) {
  if (purpose === "review" && count.review) return { title: `None for you right now, ${count.review} in line`, text: "They are your own answers, which somebody else has to look at, or they are on a screen already." };
  if (purpose === "review") return { title: "No label is in doubt", text: "Doubtful labels come here after a training." };
  if (purpose === "adjudicate" && count.disputes) return { title: `None for you right now, ${count.disputes} to decide`, text: "They are on the screen of somebody who decides, or in another tab of yours." };
  if (purpose === "adjudicate") return { title: "Nothing to decide", text: "Items that people disagree about come here." };
  if (!rest) return { title: "No connection", text: "Items will come as soon as the server answers." };
  if (rest.done) return { title: "All done", text: "Nothing is open any more. Thank you." };
  const parts = [];
  const clock = rest.until ? new Date(rest.until * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : "";
  if (rest.elsewhere) parts.push(`${rest.elsewhere} ${rest.elsewhere === 1 ? "item is" : "items are"} with ${rest.people} ${rest.people === 1 ? "colleague" : "colleagues"} until ${clock} at the latest.`);
  if (rest.own_tabs) parts.push(`${rest.own_tabs} are on the screen of another tab of yours.`);
  if (rest.for_others) parts.push(`${rest.for_others} that you answered wait for somebody else.`);
  return { title: `Nothing for you right now, ${rest.open} still open`, text: parts.join(" ") };
}

// -- the bar

async function refresh() {
  if (document.hidden || !me || outbox?.stopped) return;
  try {
    const state = await ask("GET", "/api/state");
    const { progress } = state;
    const disputes = progress.status.disputed + progress.status.unclear;
    count = { items: progress.items, closed: progress.closed, review: progress.review, disputes };
    paintProgress();
    $("review-count").textContent = progress.review || "";
    show($("view-review"), progress.review > 0 || view === "review");
    $("dispute-count").textContent = disputes || "";
    show($("view-adjudicate"), me.role !== "annotator" && (disputes > 0 || view === "adjudicate"));
    const [text, trouble] = freshness(state.model);
    $("fresh").textContent = trouble ? "" : text;
    document.body.dataset.epoch = state.model.epoch;
    connected(true);
    if (trouble) banner(text);
    else if (!$("banner").dataset.held) banner(null);
  } catch (problem) {
    if (problem.out) out();
    else connected(false);
  }
}

function paintProgress() {
  const share = count.items ? count.closed / count.items : 0;
  $("progress-fill").style.width = `${100 * share}%`;
  $("progress-text").textContent = `${count.closed.toLocaleString()} of ${count.items.toLocaleString()}`;
  $("progress").setAttribute("aria-valuemax", count.items);
  $("progress").setAttribute("aria-valuenow", count.closed);
}

function answered() { /* the counter itself comes from the server: what the screen says is what the export holds */ }

function connected(yes) {
  if (yes) { if ($("banner").dataset.held === "gone") banner(null); return; }
  banner("No connection. Go on: your answers are kept in this browser and sent as soon as it is back.", null, null, "gone");
}

function outboxChanged({ waiting, stopped, problem }) {
  const saved = $("saved");
  saved.dataset.state = stopped ? "stuck" : waiting ? "waiting" : "fine";
  saved.textContent = waiting ? `${waiting} on the way` : "Saved";
  if (stopped === "out" && document.body.dataset.view !== "door") out();
  if (problem && !problem.waiting) {
    const both = problem.facts?.current ? ` It stands as ${wordOf(problem.facts.current)}; you had said ${wordOf(problem.facts.yours)}.` : "";
    banner(`An answer was not taken: ${problem.message}.${both}`, "Look at it", showHistory, "answer");
  } else if (problem?.waiting) connected(false);
  else if (!waiting) { if ($("banner").dataset.held === "gone") banner(null); refreshSoon(); }
}

const wordOf = (said) => (said.kind === "label" ? project.classes[said.answer] : said.kind);

let soon = 0;
function refreshSoon() {
  clearTimeout(soon);
  soon = setTimeout(refresh, 250);
}

function banner(text, action = null, then = null, held = "") {
  show($("banner"), Boolean(text));
  $("banner").dataset.held = text ? held : "";
  if (!text) return;
  $("banner").replaceChildren(text, ...(action ? [el("button", { onclick: () => { banner(null); then(); } }, action)] : []));
}

// -- panels and keys

function guidelines() {
  const text = project.guideline.text.trim();
  $("guide-text").replaceChildren(...(text ? markdown(text) : [el("p", { class: "soft" }, "Nobody has written guidelines yet.")]),
    el("p", { class: "soft" }, `Version ${project.guideline.version}`));
}

function guide() {
  show($("guide"), $("guide").hidden);
  $("guide-button").setAttribute("aria-expanded", String(!$("guide").hidden));
  if (!$("guide").hidden) $("guide-close").focus();
}

function keysHelp() {
  const { board } = labelling;
  const rows = board.many
    ? [[["Enter"], "takes the class that is marked; type to find it, the arrow keys move the mark"], [[recentKey(0), "…"], "a class used lately"],
      [["Esc"], "leaves the field; then the letters below work without Alt"], [[keyOf(board, "find")], "back to the field"]]
    : [[[board.classes[0], "…"], "a class, by the key on its button"]];
  for (const [commands, text] of HELP) {
    const keys = commands.map((command) => keyOf(board, command)).filter(Boolean);
    if (keys.length) rows.push([keys, text]);
  }
  $("keys").replaceChildren(...rows.flatMap(([names, text]) => [el("dt", {}, ...names.flatMap((name) => [el("kbd", {}, name), " "])), el("dd", {}, text)]));
}

const HELP = [
  [["unsure"], "unsure: somebody else is asked"], [["none"], "none of these"], [["broken"], "broken item"], [["skip"], "skip: it comes back later"],
  [["undo"], "undo, as far back as you like"], [["why"], "why the last item was picked"], [["history"], "your answers, to change one"], [["guide"], "guidelines"],
  [["larger", "smaller", "fit"], "zoom and fit"], [["theme"], "light or dark"],
];

async function showHistory() {
  const waiting = outbox.waiting().length;
  $("outbox-text").textContent = waiting ? `${waiting} answers are still on their way.` : "All your answers are stored.";
  $("history-list").replaceChildren();
  if (!$("history").open) $("history").showModal();
  const entries = await ask("GET", "/api/history?limit=100").catch(() => []);
  $("history-list").replaceChildren(...entries.map((entry) => el("li", {},
    project.kind === "image" ? el("img", { src: `/api/items/${entry.item}/picture?size=320`, alt: "", loading: "lazy" }) : null,
    el("span", { class: "words" }, entry.text ?? ""), el("b", {}, wordOf(entry)),
    el("button", { class: "quiet", onclick: () => { $("history").close(); labelling.change(entry); } }, "Change"))));
}

const EVERYWHERE = { guide, theme: flipTheme, help: () => $("help").showModal() };
const AT_WORK = {
  undo: () => labelling.undo(), why: () => labelling.why(), history: showHistory, find: () => { if (labelling.finder) $("filter").focus(); },
};
const ON_ITEMS = {
  larger: () => zoom(1.5), smaller: () => zoom(1 / 1.5), fit: reset,
  ...Object.fromEntries(["unsure", "none", "broken", "skip"].map((kind) => [kind, () => labelling.answer(kind)])),
};

function flipTheme() {
  theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
}

function wire() {
  for (const name of VIEWS) $(`view-${name}`).addEventListener("click", () => choose(name));
  $("guide-button").addEventListener("click", guide);
  $("guide-close").addEventListener("click", () => { guide(); $("guide-button").focus(); });
  $("help-button").addEventListener("click", EVERYWHERE.help);
  $("theme-button").addEventListener("click", flipTheme);
  $("saved").addEventListener("click", showHistory);
  document.addEventListener("team", () => choose("team"));
  document.addEventListener("guideline", guidelines);
  document.addEventListener("visibilitychange", refresh);
  document.addEventListener("keydown", key);
}

function key(event) {
  if (!labelling || document.querySelector("dialog[open]") || document.body.dataset.view === "door") return;
  const asked = act(event);
  if (!asked) return;
  event.preventDefault();
  asked();
}

// What a key press does here and now, if anything. In the field that finds a class, signs are signs: commands have Alt,
// and as long as it is empty, "?" and Ctrl+Z are not meant for it either.
function act(event) {
  const writing = isWriting(event.target);
  const field = event.target === $("filter");
  const empty = field && !$("filter").value;
  const working = !$("work").hidden;
  const labels = working || !$("empty").hidden; // not in the team view: nothing is answered or taken back unseen
  if (event.ctrlKey || event.metaKey) return event.key.toLowerCase() === "z" && labels && (!writing || empty) ? AT_WORK.undo : null;
  if (event.repeat || (writing && !(field && event.altKey) && !(empty && ["?", "Escape"].includes(event.key)))) return null;
  if (event.key === "Escape") return $("guide").hidden ? null : guide;
  const { answer, recent, command } = meaning(labelling.board, event);
  if (EVERYWHERE[command]) return EVERYWHERE[command];
  if (labels && AT_WORK[command]) return AT_WORK[command];
  if (!working) return null;
  if (answer !== undefined) return () => labelling.answer("label", answer);
  if (recent !== undefined) return () => labelling.finder.takeRecent(recent);
  return ON_ITEMS[command] ?? null;
}

window.addEventListener("error", (event) => say(`Something went wrong: ${event.message}`));
begin();
