// The page: come in, choose a view, keep the bar honest.

import { $, el, say, show, uuid } from "./dom.js";
import { ask, whoami } from "./net.js";
import { Outbox, waitingOfOthers } from "./outbox.js";
import { Labelling, freshness, words } from "./label.js";
import { notice } from "./notices.js";
import { showHistory as listHistory } from "./history.js";
import { showItems } from "./items.js";
import { Guide } from "./guide.js";
import { listKeys } from "./help.js";
import { isWriting, meaning } from "./keys.js";
import { prepareStage, reset, zoom } from "./stage.js";
import { renewTeam, showTeam } from "./team.js";

const VIEWS = ["label", "review", "adjudicate", "team"];
let me = null;
let project = null;
let outbox = null;
let labelling = null;
let guide = null;
let view = "label";
let count = { done: 0, all: 0 };

// -- coming in

const token = new URLSearchParams(location.hash.slice(1)).get("enter");
if (token) history.replaceState(null, "", "/"); // a link is not left lying in the address bar

function theme(next) {
  const chosen = next ?? localStorage.getItem("ncalr-theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = chosen;
  if (next) localStorage.setItem("ncalr-theme", next);
}

const INVITED = "You were invited to label. What may the others call you?";
const PASTE = "Open the link you were given, or paste it here.";

async function begin() {
  theme();
  prepareStage();
  wire();
  if (token) {
    try {
      const { kind } = await ask("POST", "/api/link", { token });
      if (kind === "invitation") return door("Welcome", INVITED, token);
      await ask("POST", "/api/enter", { token });
    } catch (problem) {
      if (!(await inside())) return door("Come in", problem.message);
    }
  }
  if (await inside()) return start();
  return door("Come in", PASTE);
}

async function inside() {
  try { me = await whoami(); return true; } catch (problem) {
    if (problem.gone) notice("start", "The server does not answer.", "Try again", () => location.reload());
    return false;
  }
}

// With an invitation the door asks for a name, otherwise for a link; one that was pasted may be an invitation as well.
function door(title, text, invitation = null) {
  document.body.dataset.view = "door";
  document.body.dataset.item = "";
  only("door");
  tellOthers(outbox && me);
  $("door-title").textContent = title;
  $("door-text").textContent = text;
  $("door-error").textContent = "";
  show($("door-name"), invitation);
  show($("door-before"), invitation);
  show($("door-link"), !invitation);
  $(invitation ? "name" : "token").focus();
  $("door-form").onsubmit = async (event) => {
    event.preventDefault();
    const given = invitation ?? $("token").value.trim().replace(/^.*enter=/, "");
    try {
      if (!invitation && (await ask("POST", "/api/link", { token: given })).kind === "invitation") return door("Welcome", welcome(), given);
      await ask("POST", "/api/enter", { token: given, ...(invitation ? { name: $("name").value } : {}) });
      const before = me;
      me = await whoami();
      if (!outbox) return await start();
      if (me.key !== before.key) return location.reload(); // somebody else: nothing of the one before is sent as theirs
      outbox.resume();
      return await choose(view);
    } catch (problem) { $("door-error").textContent = problem.gone ? "The server does not answer; try again in a moment." : problem.message; }
  };
}

// Whoever still has answers here would leave them behind by becoming somebody new.
function welcome() {
  const waiting = outbox?.waiting().length;
  return waiting ? `This is an invitation for somebody new. ${counted(waiting, "answer")} of ${me.name} would stay behind in this browser: ask for a link for ${me.name} instead.` : INVITED;
}

async function start() {
  try { project = await ask("GET", "/api/project"); } catch (problem) {
    only(null);
    return void notice("start", problem.gone ? "The server does not answer." : `The project cannot be opened: ${problem.message}.`, "Try again", () => location.reload());
  }
  document.title = `${project.name} · ncalr`;
  localStorage.setItem(`ncalr-name:${me.key}`, me.name);
  tellOthers(me);
  outbox = new Outbox(me.key, outboxChanged);
  let tab = sessionStorage.getItem("ncalr-tab");
  if (!tab || performance.getEntriesByType("navigation")[0]?.type === "navigate") tab = uuid();
  sessionStorage.setItem("ncalr-tab", tab);
  labelling = new Labelling(project, me, outbox, tab, { out, connected, empty, working, answered, refresh, view: mark });
  outbox.tell();
  outbox.kick();
  guide = new Guide(project, me, labelling);
  listKeys(labelling.board);
  show($("view-team"), me.role !== "annotator");
  const wanted = location.hash.slice(1);
  refresh();
  setInterval(refresh, 4000);
  await choose(VIEWS.includes(wanted) ? wanted : "label");
}

function out() {
  if (outbox.stopped !== "out") { outbox.stopped = "out"; outbox.tell(); }
  if (document.body.dataset.view === "door") return; // perhaps somebody is writing there
  gone = false;
  notice("gone", null);
  door("Your session has ended", "Nothing is lost: what you answered waits in this browser and is sent as soon as you are back. Open a new link, or paste it here; an owner makes one for you in the team view.");
}

const counted = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;

// Answers that somebody else gave in this browser, and that only they can send.
function tellOthers(person) {
  const waiting = Object.entries(waitingOfOthers(person?.key)).map(([key, number]) => [number, localStorage.getItem(`ncalr-name:${key}`) ?? "somebody else"]);
  if (!waiting.length || sessionStorage.getItem("ncalr-others-hidden")) return notice("others", null);
  const names = waiting.map(([, name]) => name);
  const alone = waiting.length === 1 && waiting[0][0] === 1;
  notice("others", `${waiting.map(([number, name]) => `${counted(number, "answer")} of ${name}`).join(" and ")} ${alone ? "waits" : "wait"} in this browser: come back as ${names.join(" or ")} to send ${alone ? "it" : "them"}.`,
    "Hide", () => sessionStorage.setItem("ncalr-others-hidden", "yes"));
}

// -- views

function only(id) {
  for (const each of ["work", "empty", "team", "door"]) show($(each), each === id);
  show($("bar"), id !== null && id !== "door");
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
    refresh(); // the bar above says what the view below says
    team = { of: null, at: Date.now() };
    await showTeam(me, project).catch((problem) => (problem.out ? out() : connected(false)));
    return;
  }
  await labelling.open(next);
}

// While the session is over, the door stays in front of everything; and whoever went to the team view stays there.
const elsewhere = () => outbox.stopped || view === "team";

function working() {
  clearTimeout(lookAgain);
  if (!elsewhere()) only("work");
}

let lookAgain = 0;
function empty(rest, purpose) {
  clearTimeout(lookAgain);
  if (elsewhere()) return;
  only("empty");
  paintEmpty = () => tellEmpty(rest, purpose);
  paintEmpty();
  lookAgain = setTimeout(() => { if (!$("empty").hidden) labelling.open(labelling.purpose); }, rest?.done ? 15000 : 3000);
}

let paintEmpty = () => {};
function tellEmpty(rest, purpose) {
  document.body.dataset.item = "";
  const actions = [];
  const { title, text } = emptyWords(rest, purpose);
  $("empty-title").textContent = title;
  $("empty-text").textContent = text;
  if (labelling.done.length || labelling.older) actions.push(el("button", { onclick: () => labelling.undo() }, "Undo the last answer"));
  const decides = purpose === "label" && count.decide > 0;
  if (decides) actions.push(el("button", { id: "decide", class: "primary", onclick: () => choose("adjudicate") }, `${many(count.decide)} to decide`));
  if (purpose !== "label") actions.push(el("button", { class: "primary", onclick: () => choose("label") }, "Back to labelling"));
  else if (count.review) actions.push(el("button", { class: decides ? null : "primary", onclick: () => choose("review") }, "Take a second look"));
  if (me.role !== "annotator") actions.push(el("button", { onclick: () => choose("team") }, "Team view"));
  $("empty-actions").replaceChildren(...actions);
}

function emptyWords(rest, purpose) {
  if (purpose === "review" && count.inLine) return { title: `None for you right now, ${count.inLine} in line`, text: "They are your own answers, which somebody else has to look at, or they are on a screen already." };
  if (purpose === "review") return { title: "No label is in doubt", text: "Doubtful labels come here after a training." };
  if (purpose === "adjudicate" && count.disputes) return { title: `None for you right now, ${count.disputes} to decide`, text: "They are for a reviewer who took no part in them, or on a screen already." };
  if (purpose === "adjudicate") return { title: "Nothing to decide", text: "Items that people disagree about come here." };
  if (!rest) return { title: "No connection", text: "Items will come as soon as the server answers." };
  if (rest.done && count.disputes) {
    return { title: "Everything is answered", text: `${counted(count.disputes, "item")} ${count.disputes === 1 ? "is" : "are"} still to be decided${me.role === "annotator" ? ", by a reviewer. Thank you." : ": people disagree, or nobody was sure."}` };
  }
  if (rest.done) return { title: "All done", text: "Nothing is open any more. Thank you." };
  const parts = [];
  const clock = rest.until ? new Date(rest.until * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : "";
  if (rest.elsewhere) parts.push(`${rest.elsewhere} ${rest.elsewhere === 1 ? "item is" : "items are"} with ${rest.people} ${rest.people === 1 ? "colleague" : "colleagues"} until ${clock} at the latest.`);
  if (rest.own_tabs) parts.push(`${rest.own_tabs} are on the screen of another tab of yours.`);
  if (rest.for_others) parts.push(`${rest.for_others} that you answered wait for somebody else.`);
  return { title: `Nothing for you right now, ${rest.open} still open`, text: parts.join(" ") };
}

// -- the bar

// One question at a time, and once more for whoever asked meanwhile: no old answer is painted over a newer one.
let asking = null;
let stale = false;
function refresh() {
  stale = true;
  asking ??= (async () => {
    try {
      while (stale) { stale = false; await look(); }
    } finally { asking = null; }
  })();
  return asking;
}

// The server counts no further than to a thousand.
const many = (number) => (number > 999 ? "999+" : number || "");

async function look() {
  if (document.hidden || !me || outbox?.stopped) return;
  try {
    const state = await ask("GET", "/api/state");
    const { progress, model } = state;
    const disputes = progress.undecided ?? progress.status.disputed + progress.status.unclear;
    const several = project.votes > 1 && progress.wanted !== undefined; // what counts then is answers
    const { review, decide } = state.waiting; // what this person can do something about
    const next = { done: several ? progress.answers : progress.closed, all: several ? progress.wanted : progress.items, several, review, decide, disputes, inLine: progress.review };
    const changed = ["review", "decide", "disputes", "inLine"].some((name) => next[name] !== count[name]);
    count = next;
    paintProgress();
    if (changed && !$("empty").hidden) paintEmpty();
    $("review-count").textContent = many(review);
    show($("view-review"), review > 0 || view === "review");
    $("dispute-count").textContent = many(decide);
    show($("view-adjudicate"), me.role !== "annotator" && (decide > 0 || view === "adjudicate"));
    const [text, trouble] = freshness(model);
    $("fresh").textContent = trouble ? "" : text;
    notice("training", trouble ? text : null);
    tellWorth(model);
    labelling.tellOlder(state.own.answers);
    const added = progress.classes.length > project.classes.length;
    notice("classes", added ? "A class was added." : null, "Reload", () => location.reload());
    document.body.dataset.epoch = model.epoch;
    connected(true);
    if (state.guideline !== undefined) await guide.is(state.guideline);
    await keepTeam(`${progress.answers} ${progress.closed} ${progress.review} ${disputes} ${model.epoch}`);
  } catch (problem) {
    if (problem.out) out();
    else connected(false);
  }
}

// The team view goes on saying what is so: looked up again after something has changed, and not all the time.
const TEAM_REST = 10000;
let team = { of: null, at: 0 };
async function keepTeam(of) {
  if (view !== "team" || $("team").hidden) return;
  team.of ??= of;
  if (team.of === of || Date.now() - team.at < TEAM_REST) return;
  team = { of, at: Date.now() };
  await renewTeam(me, project);
}

// Whoever can do something about a model that has learnt nothing is told, until they have seen it.
function tellWorth(model) {
  const poor = me.role === "owner" ? model.worth?.words : null;
  const hidden = `ncalr-worth-hidden:${model.worth?.labels}`;
  notice("worth", poor && !sessionStorage.getItem(hidden) ? poor : null, "Hide", () => sessionStorage.setItem(hidden, "yes"));
}

function paintProgress() {
  const { done, all, several } = count;
  $("progress-fill").style.width = `${all ? (100 * done) / all : 0}%`;
  $("progress-text").replaceChildren(`${done.toLocaleString()} of ${all.toLocaleString()}`, ...(several ? [el("span", { class: "unit" }, " answers")] : []));
  $("progress").setAttribute("aria-label", several ? "Answers given" : "Items labelled");
  $("progress").setAttribute("aria-valuemax", all);
  $("progress").setAttribute("aria-valuenow", done);
}

// The counter itself comes from the server: what the screen says is what the export holds.
function answered() { if (gone) tellGone(); }

let gone = false;
function connected(yes) {
  if (yes && !gone) return;
  gone = !yes;
  if (gone) {
    labelling?.lost();
    tellGone();
  } else {
    notice("gone", null);
    outbox.hurry();
    labelling.found();
  }
}

function tellGone() {
  const here = view === "team" ? 0 : labelling?.queue.here;
  const kept = "are kept in this browser and sent as soon as it is back";
  notice("gone", here ? `No connection. Go on with the ${counted(here, "item")} that ${here === 1 ? "is" : "are"} here: your answers ${kept}.` : `No connection. Your answers ${kept}; new items come then.`);
}

function outboxChanged({ waiting, stopped, problem }) {
  const saved = $("saved");
  saved.dataset.state = stopped ? "stuck" : waiting ? "waiting" : "fine";
  saved.replaceChildren(...(waiting ? [String(waiting), el("span", { class: "rest" }, " on the way")] : ["Saved"]));
  if (stopped === "out" && document.body.dataset.view !== "door") out();
  if (problem && !problem.waiting) {
    const both = problem.facts?.current ? ` It stands as ${words(project, problem.facts.current)}; you had said ${words(project, problem.facts.yours)}.` : "";
    notice("answer", `An answer was not taken: ${problem.message}.${both}`, "Look at it", showHistory);
  } else if (problem?.waiting) connected(false);
  else if (!waiting) refreshSoon();
}

let soon = 0;
function refreshSoon() {
  soon ||= setTimeout(() => { soon = 0; refresh(); }, 250);
}

// -- panels and keys

const showHistory = () => listHistory(project, outbox, (entry) => labelling.change(entry));

const EVERYWHERE = { guide: () => guide.flip(), theme: flipTheme, help: () => $("help").showModal() };
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
  $("guide-button").addEventListener("click", EVERYWHERE.guide);
  for (const name of ["guide-close", "guide-done"]) $(name).addEventListener("click", () => { guide.close(); $("guide-button").focus(); });
  $("help-button").addEventListener("click", EVERYWHERE.help);
  $("theme-button").addEventListener("click", flipTheme);
  $("saved").addEventListener("click", showHistory);
  document.addEventListener("team", () => renewTeam(me, project, true).catch(() => connected(false)));
  document.addEventListener("items", () => showItems(project, (entry) => labelling.change(entry)));
  document.addEventListener("guideline", () => { guide.paint(); guide.read(); }); // whoever wrote them has seen them
  document.addEventListener("visibilitychange", refresh);
  window.addEventListener("online", refresh);
  window.addEventListener("hashchange", () => { if (location.hash.startsWith("#enter=")) location.reload(); }); // a link, opened in this tab
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
  if (event.altKey && !labelling.board.many) return null; // the browser's own
  if (event.repeat || (writing && !(field && event.altKey) && !(empty && ["?", "Escape"].includes(event.key)))) return null;
  if (event.key === "Escape") return guide.isOpen ? () => guide.close() : working && labelling.changing ? () => labelling.keep() : null;
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
