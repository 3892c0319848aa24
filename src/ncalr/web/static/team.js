// The team view: how far, how fast, how good, how much people agree; and for owners, people, rules and exports.

import { $, el, percent } from "./dom.js";
import { ask } from "./net.js";
import { bars, curve } from "./draw.js";

const ROLES = ["annotator", "reviewer", "owner"];
const STATUS = { none: "none of the classes", broken: "broken", disputed: "disputed", unclear: "nobody is sure of" };
const between = (part) => (part.total ? `95 % interval ${percent(part.low)} to ${percent(part.high)}, from ${part.total}` : "nothing to go by yet");
const SEVERAL = 10; // classes that stand below each other without a bar to scroll
const FEWEST = 10; // control items that are worth a figure
const number = (value, digits = 0) => (value === null || value === undefined ? "–" : value.toFixed(digits));

export async function showTeam(me, project) {
  const found = await ask("GET", "/api/team");
  const tiles = [folks(found, me)];
  if (me.role === "owner") tiles.push(...owner(await ask("GET", "/api/settings"), project, found.model));
  $("team").replaceChildren(el("h1", { class: "only-heard" }, "Team"), el("div", { class: "grid" }, el("div", { id: "figures" }, ...figures(found, project, me.role === "owner")), ...tiles));
}

function figures(found, project, owns) {
  const tiles = [advice(found), done(found, project), accuracy(found), second(found), classes(found, owns && found.progress.closed > 0), agreement(found)];
  if (shown(found.curve).length > 1) tiles.push(learning(found));
  if (found.card.length) tiles.push(card(found, owns));
  if (found.suggestions.shift !== null) tiles.push(anchoring(found));
  return tiles;
}

// The figures as they are now. What somebody writes in, reads with the keyboard or has marked stays as it is.
export async function renewTeam(me, project, wanted = false) {
  const found = await ask("GET", "/api/team");
  const [place, people] = [$("figures"), $("people")];
  if (!place || (!wanted && String(getSelection()) !== "")) return;
  const free = (part) => wanted || !part.contains(document.activeElement);
  if (free(place)) place.replaceChildren(...figures(found, project, me.role === "owner"));
  if (!free(people)) return;
  const at = people.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
  people.replaceChildren(list(found, me));
  if (at) [...people.querySelectorAll("[aria-label]")].find((each) => each.getAttribute("aria-label") === at)?.focus();
}

function tile(title, ...content) {
  return el("section", { class: "tile" }, el("h2", {}, title), ...content);
}

function advice(found) {
  const box = tile("Advice", el("div", { class: "figure" }, found.advice.do), el("p", {}, found.advice.why));
  box.classList.add("advice");
  return box;
}

function done(found, project) {
  const { items, closed, status, answers, wanted } = found.progress;
  const speeds = found.people.map((person) => person.an_hour).filter((speed) => speed);
  const rest = wanted - answers;
  const speed = speeds.reduce((a, b) => a + b, 0);
  const hours = rest / speed;
  const left = hours < 1.5 ? `${Math.max(1, Math.round(60 * hours))} min` : `${number(hours, 1)} h`;
  const eta = speed && rest && closed >= 20 ? `; at ${number(speed)} answers an hour together, the rest takes ${left} of work` : "";
  const more = Object.entries(status).filter(([name, count]) => count && name !== "labelled").map(([name, count]) => `${count.toLocaleString()} ${STATUS[name] ?? name}`);
  return tile("Done", el("div", { class: "figure" }, `${closed.toLocaleString()} of ${items.toLocaleString()}`),
    project.votes > 1 ? el("p", {}, `${answers.toLocaleString()} of ${wanted.toLocaleString()} answers given`) : null,
    el("p", {}, `${status.labelled.toLocaleString()} labelled${more.length ? `, ${more.join(", ")}` : ""}${eta}`));
}

function accuracy(found) {
  const { total, share, of } = found.control;
  const whose = of === "folder" ? "On items that were set aside at random from the whole folder, each predicted before it was answered" :
    "On items drawn at random from what the strategy had left, each predicted before it was answered. As the strategy takes the harder ones first, it is rather too high";
  return tile("Model accuracy, live", el("div", { class: "figure" }, total >= FEWEST ? percent(share) : "–"),
    el("p", {}, total >= FEWEST || !total ? `${whose}: ${between(found.control)}${total ? " items" : ""}.` : `${total} control item${total === 1 ? "" : "s"} so far: a figure comes with ${FEWEST}.`));
}

function agreement(found) {
  const { alpha, low, high, items, pairs } = found.agreement;
  const rows = pairs.slice(0, 12).map((pair) => el("tr", {}, el("td", {}, pair.people.join(", ")), el("td", {}, number(pair.kappa, 2)), el("td", {}, `${number(pair.low, 2)} to ${number(pair.high, 2)}`)));
  return tile("Agreement", el("div", { class: "figure" }, number(alpha, 2)),
    el("p", {}, items ? `Krippendorff's alpha, ${number(low, 2)} to ${number(high, 2)}, over ${items} items that two or more answered.` : "No item was answered by two people yet."),
    rows.length ? table("Agreement of every two people", ["two people", "kappa", "95 %"], rows) : null);
}

// One line a model, the newest first: what is known about the labels and the model, and what to do.
function card(found, owns) {
  const rows = found.card.slice().reverse().slice(0, 8).map((line) => el("tr", {}, ...[String(line.labels), line.covered ? `${line.covered} of ${line.classes}` : "–",
    line.wrong ? span(...line.wrong) : "cannot tell yet", line.control.total >= FEWEST ? span(line.control.share, line.control.low, line.control.high) : "–", String(line.control.total),
    line.nc1 === null ? "–" : String(Number(line.nc1.toPrecision(2))), number(line.redundancy, 2), line.advice].map((cell) => el("td", {}, cell))));
  const box = tile("Reliability card", table("Reliability of each model", ["labels", "classes", "wrong labels", "accuracy", "control items", "NC1", "redundancy", "advice"], rows),
    el("p", {}, `Wrong labels: ${guesser(found)} Check labels: the whole interval lies above 5 %. Stop: the control items rule out a rise of the accuracy by 5 points.`),
    el("p", {}, "NC1: how far the features have collapsed onto the class means, 0 is all the way. Redundancy: how alike the next items are (mean cosine of each to the nearest other one). A dash: not known."),
    ...(owns && found.notes.length ? [el("p", {}, "The last training noted:"), el("ul", { id: "noted" }, ...found.notes.map((note) => el("li", {}, note)))] : []));
  box.classList.add("wide");
  return box;
}

// Whether the audit can tell, and by what.
function guesser(found) {
  const { agrees, asked } = found.curve.at(-1).facts.audit ?? {};
  const by = "judged by a linear model that guesses labels it was not shown";
  if (agrees === undefined || agrees === null) return `${by}, from 20 labels on.`;
  return `${by}, ${percent(agrees)} of them right now; unless that is surely above ${percent(asked)}, nobody can tell.`;
}

const span = (share, low, high) => `${percent(share)} (${percent(low)} to ${percent(high)})`;

function table(name, columns, rows) {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, el("table", {}, head(...columns), el("tbody", {}, ...rows)));
}

function second(found) {
  const { doubtful, control, open } = found.review;
  return tile("Second look", el("div", { class: "figure" }, percent(doubtful.share)),
    el("p", {}, doubtful.total ? `of the doubtful labels were answered differently by a second person (${between(doubtful)}); of the sound-looking controls ${percent(control.share)}.` : "Doubtful labels are shown again, blind, between sound ones."),
    el("p", {}, `${open} in line.`));
}

const shown = (points) => points.filter((point) => point.pooled.total >= FEWEST).map((point) => ({ labels: point.labels, ...point.pooled }));

function learning(found) {
  const box = tile("Learning curve", curve(shown(found.curve)), el("p", {}, "Accuracy on control items, by the number of labels, with 95 % intervals. Each point counts those of the last five models, or more where these have fewer than 20, so it lags a little behind."));
  box.classList.add("wide");
  return box;
}

function classes(found, looks) {
  const rows = found.progress.classes.slice().sort((a, b) => b.count - a.count);
  const missing = rows.filter((row) => !row.count).length;
  const drawn = bars(rows.map((row) => ({ name: row.name, value: row.count, label: row.count.toLocaleString() })));
  return tile("Labels by class", rows.length > SEVERAL ? el("div", { class: "tall", tabindex: 0, role: "region", "aria-label": "Labels by class" }, drawn) : drawn,
    looks ? el("button", { id: "items-button", onclick: () => document.dispatchEvent(new CustomEvent("items")) }, "Look at the items") : null,
    missing && missing < rows.length ? el("p", {}, `${missing} of ${rows.length} classes ${missing === 1 ? "has" : "have"} none yet.`) : null);
}

function anchoring(found) {
  const { shift, low, high } = found.suggestions;
  return tile("Effect of suggestions", el("div", { class: "figure" }, `${shift >= 0 ? "+" : ""}${(100 * shift).toFixed(0)} points`),
    el("p", {}, `People agree with the model this much more where its guess is shown (${(100 * low).toFixed(0)} to ${(100 * high).toFixed(0)}). It is hidden on a random half.`));
}

function head(...names) {
  return el("thead", {}, el("tr", {}, ...names.map((name) => el("th", { scope: "col" }, name))));
}

function folks(found, me) {
  const box = tile("People", el("div", { id: "people" }, list(found, me)));
  box.classList.add("wide");
  if (me.role === "owner") box.append(el("div", { id: "entry", role: "status" }), invite());
  return box;
}

function list(found, me) {
  const owner = me.role === "owner";
  const rows = found.people.map((person) => el("tr", {}, el("td", {}, el("bdi", {}, person.name)), el("td", {}, owner && person.active && person.key !== me.key ? roles(person) : person.active ? person.role : "away"), el("td", {}, String(person.answers)),
    el("td", {}, number(person.an_hour)), el("td", {}, percent(person.unsure)), el("td", {}, person.agrees.total ? percent(person.agrees.share) : "–"), el("td", {}, person.accuracy ? span(person.accuracy.share, person.accuracy.low, person.accuracy.high) : "–"),
    owner ? el("td", {}, ...entry(person, me)) : null));
  const last = owner ? ["entry"] : [];
  return table("People", ["name", "role", "answers", "an hour", "unsure", "agrees with the others", "estimated accuracy", ...last], rows);
}

// What an owner can do about somebody's entry. Where it fails, the reason stands below the list.
async function managed(change) {
  try { await change(); } catch (problem) { $("entry").replaceChildren(el("p", {}, problem.message)); }
}

async function changed(person, what) {
  await ask("PATCH", `/api/people/${person.key}`, what);
  document.dispatchEvent(new CustomEvent("team"));
}

function roles(person) {
  const select = el("select", { class: "field", "aria-label": `Role of ${person.name}` }, ...ROLES.map((name) => el("option", { selected: name === person.role }, name)));
  select.addEventListener("change", () => managed(() => changed(person, { role: select.value })));
  return select;
}

function entry(person, me) {
  const link = async () => {
    const { url } = await ask("POST", `/api/people/${person.key}/link`);
    give($("entry"), url, `For ${person.name}, also on another device. Works once, for a day.`);
  };
  const found = [];
  if (person.active) found.push(el("button", { class: "quiet", "aria-label": `New link for ${person.name}`, onclick: () => managed(link) }, "New link"));
  if (person.key !== me.key) {
    const word = person.active ? "Send away" : "Let in again";
    found.push(el("button", { class: "quiet", "aria-label": `${word}: ${person.name}`, onclick: () => managed(() => changed(person, { active: !person.active })) }, word));
  }
  return found;
}

// A link to pass on, also on the clipboard where the browser allows it.
function give(place, url, text) {
  const told = el("span", { role: "status" });
  const copy = (refused) => navigator.clipboard.writeText(url).then(() => { told.textContent = "It is on the clipboard."; }, () => { told.textContent = refused; });
  const button = navigator.clipboard ? el("button", { onclick: () => copy("The browser does not allow it: mark the link and copy it.") }, "Copy") : null;
  place.replaceChildren(el("div", { class: "link-box" }, url), el("div", { class: "row" }, button, el("p", {}, `${text} `, told)));
  if (button) copy("");
}

function invite() {
  const role = el("select", { class: "field", "aria-label": "Role" }, ...ROLES.map((name) => el("option", {}, name)));
  const place = el("div");
  const make = async () => {
    const { url } = await ask("POST", "/api/invitations", { role: role.value });
    give(place, url, "Works once, for a day. Send it to one person.");
  };
  return el("div", {}, el("p", {}, "Invite somebody new by a link (whoever was here before gets a new link of their own, above):"), el("div", { class: "row" }, role, el("button", { onclick: make }, "Make a link")), place);
}

// A field with its name before it.
function field(id, name, type, value, more = {}) {
  const input = el("input", { class: "field", type, id, value, ...more });
  return [input, el("div", { class: "row" }, el("label", { for: id }, name), input)];
}

function check(id, name, checked) {
  const input = el("input", { type: "checkbox", id, checked });
  return [input, el("p", {}, el("label", { class: "check" }, input, el("span", {}, name)))];
}

// A button that does something, and says below what came of it.
function doing(name, act) {
  const note = el("p", { role: "status" });
  const run = async () => {
    try { note.textContent = await act(); } catch (problem) { note.textContent = problem.message; }
  };
  return [el("button", { onclick: run }, name), note];
}

function rules(settings, project) {
  const [votes, votesRow] = field("votes", "Votes an item", "number", settings.votes, { min: 1, max: 50 });
  const [hints, hintsRow] = check("hints", "Show the model's guess, on a random half", settings.suggestions);
  const [hide, hideRow] = check("hide-names", "Hide the items' names", settings.hide_names);
  const [strategy, strategyRow] = field("strategy", "Chosen by", "text", settings.strategy, { spellcheck: false, autocomplete: "off" });
  const [control, controlRow] = field("control", "Drawn at random, %", "number", Math.round(1000 * settings.control) / 10, { min: 0, max: 99, step: "any" });
  const [step, stepRow] = field("step", "Answers between trainings", "number", settings.step, { min: 1 });
  const [lease, leaseRow] = field("lease", "An item is held for, seconds", "number", settings.lease_seconds, { min: 5 });
  const read = () => ({
    votes: Number(votes.value), suggestions: hints.checked, hide_names: hide.checked, strategy: strategy.value.trim(),
    control: Number(control.value) / 100, step: Number(step.value), lease_seconds: Number(lease.value),
  });
  let known = read();
  const save = async () => {
    const wanted = read();
    const changes = Object.entries(wanted).filter(([name, value]) => value !== known[name]);
    if (!changes.length) return "Nothing was changed.";
    await ask("PATCH", "/api/settings", Object.fromEntries(changes));
    known = wanted;
    project.votes = wanted.votes;
    return "Saved. What chooses, and how much is drawn, holds from the next training on.";
  };
  return tile("Rules", votesRow, hintsRow, hideRow, el("details", {}, el("summary", {}, "More"), strategyRow, controlRow, stepRow, leaseRow), ...doing("Save rules", save));
}

function upkeep() {
  const [name, row] = field("new-class", "One more class", "text", "", { maxlength: 200, autocomplete: "off" });
  const add = async () => {
    await ask("POST", "/api/classes", { name: name.value });
    const said = `“${name.value.trim()}” is added, for good. Pages that are open offer to reload.`;
    name.value = "";
    return said;
  };
  const free = async () => {
    const { released } = await ask("POST", "/api/leases/clear");
    return `${released} ${released === 1 ? "item is" : "items are"} free again. Answers to them still count.`;
  };
  return tile("Upkeep", row, ...doing("Add the class", add), el("p", {}, "Items on screens that nobody sits at are free by themselves after a while; or now:"), ...doing("Take all items back", free));
}

let draft = null; // guidelines that are written and not saved: whoever looks at an item meanwhile finds them again
let saved = null; // the version that was saved last, and what was said of it: the view may be drawn anew meanwhile
function owner(settings, project, model) {
  const words = el("textarea", { class: "field", "aria-label": "Guidelines" });
  words.value = draft ?? project.guideline.text;
  const told = el("p", { role: "status", id: "guidelines-told" }, saved?.version === project.guideline.version ? saved.said : "");
  words.addEventListener("input", () => { draft = words.value; saved = null; told.textContent = ""; });
  const write = async () => {
    const text = words.value;
    const { version } = await ask("PUT", "/api/guideline", { text });
    project.guideline = { version, text };
    const said = `Saved as version ${version}; every answer from now on is stored with it.`;
    if ((draft ?? text) === text) [draft, saved] = [null, { version, said }]; // nothing was written since
    ($("guidelines-told") ?? told).textContent = said;
    document.dispatchEvent(new CustomEvent("guideline"));
  };
  const links = [["csv", "CSV"], ["jsonl", "JSONL"], ["parquet", "Parquet"], ["labelstudio", "Label Studio"]].map(([form, name]) => el("a", { href: `/api/export?form=${form}`, download: "", id: `export-${form}` }, el("button", { tabindex: -1 }, name)));
  const writing = tile("Guidelines", words, el("div", { class: "row" }, el("button", { onclick: write }, "Save guidelines")), told);
  writing.classList.add("wide");
  return [
    rules(settings, project),
    upkeep(),
    tile("Export", el("div", { class: "row" }, ...links), el("p", {}, "Every vote, the verdict, how sure it is, and how the item came to be asked. Which rows stand for the whole folder, and with which weight: “What is exported about the choice” in docs/labelling.md."),
      model.epoch ? el("div", { class: "row" }, el("a", { href: "/api/model", download: "", id: "export-model" }, el("button", { tabindex: -1 }, "The trained model"))) : null,
      el("p", {}, model.epoch ? "A zip file without pickle. What the model says of the items nobody has labelled: ncalr labels predict." : "The trained model is here after the first training.")),
    writing,
  ];
}
