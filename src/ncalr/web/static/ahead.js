// The next items: leased and decoded before they are needed, so that a key press is answered by the next picture at
// once. Blobs are let go of as soon as an item leaves the screen: memory does not grow with the work.

import { ask } from "./net.js";

// Few, for each was chosen by the model of the moment and is kept from the others. A tab that has lost its connection
// holds as many as the server lets it for a while: it may happen again.
const AHEAD = 4;
const MOST = 10;
const UNSTEADY = 10 * 60 * 1000;

export class Ahead {
  constructor(tab, kind, purpose) {
    this.tab = tab;
    this.kind = kind;
    this.purpose = purpose;
    this.items = []; // the first is on the screen
    this.done = new Set(); // leases answered here, which the server may not know yet
    this.rest = null;
    this.urls = 0;
    this.lost = -Infinity; // when the connection was last lost
  }

  get ahead() { return Date.now() - this.lost < UNSTEADY ? MOST : AHEAD; }

  // Items that can be answered now, also without a network.
  get here() { return this.items.filter((item) => this.kind === "text" || item.image).length; }

  async fill() {
    if (this.filling) return this.filling;
    this.filling = this.fetch().finally(() => { this.filling = null; });
    return this.filling;
  }

  async fetch() {
    const open = this.items.filter((item) => !this.done.has(item.token)).length;
    const want = Math.min(this.ahead + this.pending(), MOST);
    if (open >= Math.min(this.ahead, want)) return;
    const reply = await ask("POST", "/api/next", { tab: this.tab, want, purpose: this.purpose });
    this.rest = reply.rest ?? null;
    for (const item of reply.items) {
      if (this.done.has(item.token) || this.items.some((known) => known.token === item.token)) continue;
      this.items.push(item);
      if (this.kind === "image") item.ready = this.load(item);
    }
  }

  // Answers that are still in the outbox hold their leases: ask for so many more.
  pending() { return this.outbox ? this.outbox.waiting().length : 0; }

  async load(item) {
    try {
      const reply = await fetch(`/api/items/${item.item}/picture`, { credentials: "same-origin" });
      if (!reply.ok) {
        if (reply.status >= 500 || reply.status === 429) throw new Error("later");
        item.problem = (await reply.json()).error;
        return;
      }
      item.pages = Number(/pages=(\d+)/.exec(reply.headers.get("content-type"))?.[1] ?? 1); // of a TIFF
      const image = new Image();
      item.url = URL.createObjectURL(await reply.blob());
      this.urls += 1;
      image.src = item.url;
      await image.decode();
      item.width = image.naturalWidth;
      item.height = image.naturalHeight;
      item.image = image;
    } catch {
      item.later = true; // nothing is wrong with it: there was no connection
    }
  }

  // Pictures that did not come are asked for again.
  again() {
    for (const item of this.items.filter((each) => each.later)) {
      item.later = false;
      item.ready = this.load(item);
    }
  }

  get current() { return this.items[0] ?? null; }

  // The current item is answered.
  advance() {
    const item = this.items.shift();
    if (!item) return;
    this.done.add(item.token);
    if (this.done.size > 200) this.done.delete(this.done.values().next().value);
    this.letGo(item);
  }

  back(item) {
    this.done.delete(item.token);
    this.items = this.items.filter((known) => known.token !== item.token);
    this.items.unshift(item);
    if (this.kind === "image") { item.problem = null; item.later = false; item.ready = this.load(item); }
  }

  // An old answer that was only looked at leaves the screen as it came.
  putAway() {
    for (const item of this.items.filter((each) => each.changing)) this.letGo(item);
    this.items = this.items.filter((item) => !item.changing);
  }

  letGo(item) {
    if (item.url) { URL.revokeObjectURL(item.url); this.urls -= 1; }
    item.url = item.image = null;
  }

  keep(held) {
    const first = this.items[0];
    for (const item of this.items.slice(1)) if (!held.includes(item.token)) this.letGo(item);
    this.items = this.items.filter((item) => item === first || held.includes(item.token));
  }

  forget() {
    for (const item of this.items) this.letGo(item);
    this.items = [];
  }
}
