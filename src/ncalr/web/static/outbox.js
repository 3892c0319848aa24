// Answers on their way. Each is written to this browser's storage before it is sent, and removed when the server has
// said that it is stored: a lost network, an ended session, a closed tab or a crash only make it wait. They are sent one
// after the other, in order, with the times at which they were given. One tab at a time sends (Web Locks).

import { ask, Problem } from "./net.js";

const PREFIX = "ncalr-answer:";
const LONGEST = 30000;

// Answers of other people that wait in this browser: how many, by the person's key.
export function waitingOfOthers(person) {
  const found = {};
  for (let at = 0; at < localStorage.length; at += 1) {
    const [prefix, key] = localStorage.key(at).split(":");
    if (`${prefix}:` === PREFIX && key !== person) found[key] = (found[key] ?? 0) + 1;
  }
  return found;
}

export class Outbox {
  constructor(person, listener) {
    this.prefix = `${PREFIX}${person}:`;
    this.listener = listener;
    this.stopped = null; // "out" while the session is over
    this.session = 0; // how often somebody has come back
    this.pause = 500;
    this.notBefore = 0; // when the server asked us to wait
    this.memory = new Map(); // where storage is full or forbidden, the tab itself keeps them
    this.running = false;
    window.addEventListener("online", () => this.kick());
    window.addEventListener("storage", (event) => { if (event.key?.startsWith(this.prefix)) this.tell(); });
  }

  // In the order in which they were given; ids of other people's answers stay where they are.
  waiting() {
    const found = [...this.memory.values()];
    for (let at = 0; at < localStorage.length; at += 1) {
      const key = localStorage.key(at);
      if (key.startsWith(this.prefix)) found.push(JSON.parse(localStorage.getItem(key)));
    }
    return found.sort((a, b) => a.order - b.order);
  }

  put(answer) {
    const entry = { ...answer, order: Date.now() + performance.now() % 1 };
    const last = this.waiting().at(-1);
    if (last && entry.order <= last.order) entry.order = last.order + 0.001;
    try { localStorage.setItem(this.prefix + answer.id, JSON.stringify(entry)); } catch { this.memory.set(answer.id, entry); }
    this.tell();
    this.kick();
  }

  drop(id) {
    localStorage.removeItem(this.prefix + id);
    this.memory.delete(id);
  }

  holds(lease) {
    return this.waiting().some((answer) => answer.body.lease === lease);
  }

  // Until everything is stored, or so long: whoever asks what is left should ask after what was answered.
  async drained(milliseconds) {
    const end = Date.now() + milliseconds;
    while (this.waiting().length && !this.stopped && Date.now() < end) await new Promise((then) => setTimeout(then, 20));
  }

  tell(problem = null) {
    this.listener({ waiting: this.waiting().length, stopped: this.stopped, problem });
  }

  resume() {
    this.stopped = null;
    this.session += 1;
    this.hurry();
  }

  // The connection is back: send now, and not when the pause is over that was getting longer and longer.
  hurry() {
    this.pause = 500;
    if (Date.now() >= this.notBefore) this.kick();
  }

  async kick() {
    if (this.running || this.stopped) return;
    this.running = true;
    clearTimeout(this.timer);
    try {
      if (navigator.locks) await navigator.locks.request("ncalr-outbox", () => this.send());
      else await this.send();
    } finally {
      this.running = false;
    }
    if (!this.stopped && this.waiting().length) {
      this.timer = setTimeout(() => this.kick(), this.pause);
      this.pause = Math.min(this.pause * 2, LONGEST);
    }
  }

  async send() {
    for (let next = this.waiting()[0]; next && !this.stopped; next = this.waiting()[0]) {
      const { session } = this;
      try {
        const { id } = await ask("PUT", `/api/answers/${next.id}`, next.body);
        if (id !== next.id) throw new Problem(0, "no connection"); // not our server: it would have said what it stored
        this.drop(next.id);
        this.pause = 500;
        this.tell();
      } catch (problem) {
        if (problem.out || problem.status === 403) {
          if (session !== this.session) continue; // of before somebody came back
          this.stopped = "out";
        }
        else if (!problem.gone) {
          this.drop(next.id); // the server will never take it: say so, with both values where there are two
          this.tell({ message: problem.message, facts: problem.facts, answer: next });
          continue;
        }
        if (problem.wait) { this.pause = problem.wait * 1000; this.notBefore = Date.now() + this.pause; }
        this.tell(problem.gone ? { message: problem.message, waiting: true } : null);
        return;
      }
    }
  }
}
