// Labelling: one key answers and brings the next item. The answer goes to the outbox; the screen never waits for it.

import { $, ago, breakable, el, say, show, uuid } from "./dom.js";
import { ask, farewell } from "./net.js";
import { Ahead } from "./ahead.js";
import { reason } from "./draw.js";
import { Finder } from "./find.js";
import { keyOf, keyboard } from "./keys.js";
import { clear, present } from "./stage.js";

const WORDS = { unsure: "unsure", none: "none of these", broken: "broken", skip: "skipped" };

const DOUBLE_CLICK = 0.3; // seconds; nobody has looked at an item in less

// An answer in words.
export const words = (project, said) => (said.kind === "label" ? project.classes[said.answer] : WORDS[said.kind] ?? said.kind);

export class Labelling {
  constructor(project, person, outbox, tab, hooks) {
    Object.assign(this, { project, person, outbox, tab, hooks });
    this.queues = {};
    this.purpose = "label";
    this.done = []; // answers since the page was opened, oldest first: undo walks back through them, then through the server's
    this.older = false;
    this.undoing = false;
    this.board = keyboard(project.classes);
    this.paint();
    this.other = new BroadcastChannel("ncalr");
    this.other.onmessage = () => this.hooks.refresh();
    setInterval(() => this.beat(), Math.min(60000, project.lease_seconds * 200));
    window.addEventListener("pagehide", () => this.goodbye());
  }

  get queue() {
    if (!this.queues[this.purpose]) {
      this.queues[this.purpose] = new Ahead(this.tab, this.project.kind, this.purpose);
      this.queues[this.purpose].outbox = this.outbox;
    }
    return this.queues[this.purpose];
  }

  async open(purpose) {
    this.purpose = purpose;
    clear();
    for (const queue of Object.values(this.queues)) queue.putAway();
    await this.refill();
    await this.present();
  }

  async refill() {
    try {
      await this.queue.fill();
      this.hooks.connected(true);
    } catch (problem) {
      if (problem.out) { this.hooks.out(); return; }
      this.queue.rest = null; // nobody knows any more
      this.hooks.connected(false);
    }
  }

  // The connection is gone, and then back: more items are held from now on, and pictures that did not come are fetched.
  lost() {
    for (const queue of Object.values(this.queues)) queue.lost = Date.now();
  }

  found() {
    const missing = this.queue.current?.later;
    for (const queue of Object.values(this.queues)) queue.again();
    if (missing && !$("work").hidden) this.present();
  }

  async present() {
    if (this.outbox.stopped) return; // the door is open: it stays in front
    const item = this.queue.current;
    if (!item) {
      this.hooks.empty(this.queue.rest, this.purpose);
      return;
    }
    this.hooks.working();
    await present(item, this.project.kind);
    if (item !== this.queue.current) return;
    if (item.later) this.hooks.connected(false); // and what was not there to be seen is not answered
    else item.shown = item.shown ?? Date.now() / 1000;
    this.suggest(item);
    this.tellChanging(item);
    this.tellPurpose(item);
    this.finder?.reset();
    document.body.dataset.item = item.item;
  }

  suggest(item) {
    const shown = item.suggestion !== null && item.suggestion !== undefined;
    show($("suggestion"), shown);
    for (const button of this.buttons) button.classList.toggle("suggested", shown && Number(button.dataset.answer) === item.suggestion);
    if (shown) $("suggestion").replaceChildren("The model thinks: ", el("b", { dir: "auto" }, this.project.classes[item.suggestion]));
  }

  // An old answer is on the stage: what it was, and the way out.
  tellChanging(item) {
    const old = item.changing;
    show($("changing"), Boolean(old));
    for (const button of this.buttons) button.classList.toggle("standing", old?.kind === "label" && Number(button.dataset.answer) === old.answer);
    for (const button of $("others").querySelectorAll("[data-kind]")) button.classList.toggle("standing", old?.kind === button.dataset.kind);
    $("others").querySelector("[data-kind='skip']").disabled = Boolean(old); // it would put the old answer out of force
    if (old) $("changing").replaceChildren("Changing an old answer: you said ", el("b", { dir: "auto" }, words(this.project, old)), ". ", el("button", { id: "keep", onclick: () => this.keep() }, el("kbd", { "aria-hidden": "true" }, "Esc"), " Keep it"));
  }

  get changing() { return Boolean(this.queue.current?.changing); }

  async keep() {
    const { from } = this.queue.current.changing;
    this.hooks.view(from);
    say("Kept as it was.");
    await this.open(from);
  }

  // Whoever is here for the first time learns what is asked of them.
  tellPurpose(item) {
    show($("said"), this.purpose !== "label");
    if (this.purpose === "adjudicate") this.opinions(item);
    else $("said").replaceChildren("Somebody has labelled this already. Say what you see: what was said is not shown, and it may well be right.");
  }

  async opinions(item) {
    $("said").replaceChildren("…");
    const said = await ask("GET", `/api/disputes/${item.token}`).catch(() => []);
    if (item !== this.queue.current) return; // answered meanwhile
    $("said").replaceChildren("You decide. ", ...said.map((entry) => el("span", { class: "opinion" },
      `${entry.people} ${entry.people === 1 ? "says" : "say"}: `, el("b", { dir: "auto" }, words(this.project, entry)))));
  }

  answer(kind, number = null) {
    const item = this.queue.current;
    if (!item || item.shown === undefined || (item.changing && kind === "skip")) return;
    const record = { id: uuid(), item, kind, answer: number, purpose: this.purpose, based_on: item.based_on ?? null };
    this.outbox.put({ id: record.id, body: {
      item: item.item, kind, lease: item.token, shown: item.shown, answered: Date.now() / 1000, based_on: record.based_on,
      ...(kind === "label" ? { answer: number } : {}), ...this.underGuideline(),
    } });
    this.done.push(record);
    if (kind === "label") this.finder?.used(number);
    this.flash(kind, number);
    this.tellLast();
    this.queue.advance();
    item.shown = item.based_on = undefined;
    if (item.changing) { this.purpose = item.changing.from; this.hooks.view(this.purpose); }
    this.hooks.answered();
    if (this.queue.current) {
      this.present();
      this.refill();
    } else {
      this.outbox.drained(2000).then(() => this.refill()).then(() => this.present());
    }
    this.other.postMessage("answered");
  }

  // The second half of a double click is not meant for the item that has just come.
  pressed(event, kind, number = null) {
    const since = Date.now() / 1000 - (this.queue.current?.shown ?? 0);
    if (event.detail > 1 && since < DOUBLE_CLICK) return;
    this.answer(kind, number);
  }

  async undo() {
    if (this.undoing) return;
    this.undoing = true;
    try {
      const last = this.done.pop() ?? (await this.earlier());
      if (last !== undefined) await this.takeBack(last);
    } finally { this.undoing = false; }
  }

  // The newest answer from before this page was opened, as the server has it; all that was said here is there first.
  // Nothing (undefined) as long as the server cannot be asked, or does not know all that was said.
  async earlier() {
    await this.outbox.drained(2000);
    const found = this.outbox.waiting().length ? null : await ask("GET", "/api/history?limit=1").catch(() => null);
    if (!found) { say("Cannot undo now: answers are still on their way. Try again in a moment."); return undefined; }
    const [entry] = found;
    this.older = Boolean(entry);
    if (!entry) return null;
    const item = { item: entry.item, token: entry.lease, text: entry.text, name: entry.name, suggestion: null };
    return { id: entry.id, item, kind: entry.kind, answer: entry.answer, purpose: entry.purpose, based_on: entry.based_on };
  }

  async takeBack(last) {
    if (!last) { say("Nothing to undo."); this.tellLast(); return; }
    this.outbox.put({ id: uuid(), body: { item: last.item.item, kind: "undo", lease: last.item.token, based_on: last.id, answered: Date.now() / 1000, ...this.underGuideline() } });
    this.purpose = last.purpose;
    this.hooks.view(last.purpose);
    last.item.based_on = last.based_on ?? undefined;
    this.queue.back(last.item);
    this.hooks.answered();
    say("Taken back.");
    await this.present();
    this.tellLast();
  }

  // Somebody chose an older answer to change it.
  async change(entry) {
    const { kind, answer } = entry;
    const item = { item: entry.item, token: entry.lease, text: entry.text, name: entry.name, suggestion: null, based_on: entry.id, changing: { kind, answer, from: this.purpose } };
    for (const queue of Object.values(this.queues)) queue.putAway();
    this.purpose = entry.purpose;
    this.hooks.view(entry.purpose);
    this.queue.back(item);
    await this.present();
  }

  // The version of the guidelines that this person was shown; a server that does not ask for it is not told.
  underGuideline() { return this.guideline === undefined ? {} : { guideline: this.guideline }; }

  // Whether there are answers from before this page was opened.
  tellOlder(answers) {
    this.older = answers > this.done.length;
    $("undo").disabled = !this.done.length && !this.older;
  }

  flash(kind, number) {
    const button = kind === "label" ? this.buttons[number] : $("others").querySelector(`[data-kind="${kind}"]`);
    if (!button) return;
    button.classList.add("pressed");
    setTimeout(() => button.classList.remove("pressed"), 140);
  }

  tellLast() {
    const last = this.done.at(-1);
    $("last").textContent = last ? `Last: ${words(this.project, last)}` : "";
    $("why-button").disabled = !last;
    $("undo").disabled = !this.done.length && !this.older;
    if (last) say(words(this.project, last));
  }

  async why() {
    const last = this.done.at(-1);
    if (!last) return;
    $("why-body").replaceChildren("…");
    $("why").showModal();
    try {
      $("why-body").replaceChildren(...reason(await ask("GET", `/api/leases/${last.item.token}/why`), this.project.classes));
    } catch (problem) {
      $("why-body").replaceChildren(el("p", {}, problem.gone ? "No connection; ask again in a moment." : problem.message));
    }
  }

  paint() {
    const { many, classes } = this.board;
    $("classes").classList.toggle("many", many);
    show($("filter-box"), many);
    this.buttons = this.project.classes.map((name, at) => el("button", { "data-answer": at, title: name, "aria-keyshortcuts": classes[at], onclick: (event) => this.pressed(event, "label", at) },
      classes[at] && classes[at] !== name.toLowerCase() ? el("kbd", { "aria-hidden": "true" }, classes[at]) : null, el("span", { dir: "auto" }, ...breakable(name))));
    $("classes").replaceChildren(...this.buttons);
    if (many) this.finder = new Finder(this.project.classes, this.buttons, (at) => this.answer("label", at));
    for (const button of document.querySelectorAll("[data-command]")) this.tellKey(button, keyOf(this.board, button.dataset.command));
    for (const button of $("others").querySelectorAll("[data-kind]")) button.addEventListener("click", (event) => this.pressed(event, button.dataset.kind));
    $("undo").addEventListener("click", () => this.undo());
    $("undo").disabled = true;
    $("why-button").addEventListener("click", () => this.why());
  }

  // The key that a command really has in this project: on the button where there is room, in its title otherwise.
  tellKey(button, key) {
    const place = button.querySelector("kbd");
    if (place) { place.textContent = key ?? ""; show(place, Boolean(key)); }
    else if (key) button.title = `${button.title} (${key})`;
    if (key) button.setAttribute("aria-keyshortcuts", key.replace("⌥", "Alt+"));
  }

  async beat() {
    if (!this.queue.items.length) return;
    try {
      const { held } = await ask("POST", "/api/heartbeat", { tab: this.tab });
      const waiting = this.outbox.waiting().map((answer) => answer.body.lease);
      this.queue.keep([...held, ...waiting]);
      this.hooks.connected(true);
    } catch (problem) {
      if (problem.out) this.hooks.out();
      else this.hooks.connected(false);
    }
  }

  // The tab closes: what is on the screen goes back, but for what is answered and still on its way.
  goodbye() {
    const leases = Object.values(this.queues).flatMap((queue) => queue.items.map((item) => item.token)).filter((token) => token && !this.outbox.holds(token));
    if (leases.length) farewell("/api/release", { leases });
  }
}

// The line about the model, and whether it is a trouble. "starting": the training process has not spoken up yet.
export function freshness(model) {
  if (model.worker === "gone") return ["The training process is not running; labelling goes on with the order there is.", true];
  if (model.worker === "failed") return [`The last training failed (${model.message}); labelling goes on with the order there is.`, true];
  const off = model.worker === "off";
  const busy = off ? "; training is switched off" : model.worker === "training" || model.worker === "scoring" ? `, ${model.worker} now` : "";
  if (off && !model.epoch) return ["Training is switched off", false];
  if (!model.epoch) return [model.message ? `No model yet: ${model.message}${busy}` : `No model yet${busy}`, false];
  const since = model.answers_since ? `, ${model.answers_since} ${model.answers_since === 1 ? "answer" : "answers"} since` : "";
  return [`Model of ${model.labels} labels, ${ago(model.age)}${since}${busy}${model.worth ? "; no better than a constant yet" : ""}`, false];
}
