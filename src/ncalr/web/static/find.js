// Many classes: a field to type into, a choice that the arrow keys move, and a row with the classes used last. The
// classes themselves keep their places, so that a hand finds each where it was.

import { $, el, say, show } from "./dom.js";
import { recentKey } from "./keys.js";

const PLACES = 5;

// Without accents and case: "cafe" finds "Café".
const folded = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase().trim();

// The classes that hold every word typed, the best first: the very name, names that begin so, words that begin so.
function ranked(names, typed) {
  const query = folded(typed);
  const words = query.split(/\s+/);
  const found = [];
  for (const [at, name] of names.entries()) {
    const text = folded(name);
    if (!words.every((word) => text.includes(word))) continue;
    const begins = text.split(/[\s\p{P}]+/u).some((word) => word.startsWith(words[0]));
    found.push([text === query ? 0 : text.startsWith(query) ? 1 : begins ? 2 : 3, at]);
  }
  return found.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, at]) => at);
}

export class Finder {
  constructor(names, buttons, take) {
    Object.assign(this, { names, buttons, take });
    this.typed = "";
    this.found = names.map((_, at) => at);
    this.chosen = -1; // a place in what was found
    this.marked = null; // the button there
    this.row = []; // { at, used }: a class keeps its place in the row until another needs it
    this.uses = 0;
    $("classes").setAttribute("role", "listbox");
    for (const [at, button] of buttons.entries()) {
      button.id = `class-${at}`;
      button.setAttribute("role", "option");
      button.setAttribute("aria-selected", "false");
      button.tabIndex = -1; // the arrow keys go there
    }
    $("filter").addEventListener("input", () => this.filter());
    $("filter").addEventListener("keydown", (event) => this.key(event));
  }

  // A new item: the field is empty again and has the focus, but not where that would open a phone's keyboard.
  reset() {
    $("filter").value = "";
    this.filter();
    if (!matchMedia("(pointer: coarse)").matches) $("filter").focus({ preventScroll: true });
  }

  filter() {
    const typed = $("filter").value.trim();
    if (typed !== this.typed) {
      this.holdHeight(typed !== "");
      this.typed = typed;
      this.found = ranked(this.names, typed);
      $("classes").replaceChildren(...this.found.map((at) => this.buttons[at]));
      $("classes").scrollTop = 0;
      show($("classes"), this.found.length > 0);
      show($("no-match"), !this.found.length);
      if (typed) say(this.found.length ? `${this.found.length} classes, first ${this.names[this.found[0]]}` : "No class matches");
    }
    this.choose(typed ? 0 : -1);
  }

  // While somebody types the answers stay as high as they are: the item above must not jump with every letter.
  holdHeight(hold) {
    const height = !hold ? "" : this.height || `${$("classes").offsetHeight}px`;
    this.height = $("classes").style.minHeight = $("no-match").style.minHeight = height;
  }

  choose(place) {
    this.marked?.classList.remove("first");
    this.marked?.setAttribute("aria-selected", "false");
    this.chosen = place;
    this.marked = this.buttons[this.found[place]] ?? null;
    $("filter").removeAttribute("aria-activedescendant");
    if (!this.marked) return;
    this.marked.classList.add("first");
    this.marked.setAttribute("aria-selected", "true");
    this.marked.scrollIntoView({ block: "nearest" });
    $("filter").setAttribute("aria-activedescendant", this.marked.id);
  }

  // Up and down by a row of buttons, left and right by one, unless the cursor stands inside of what was typed.
  step(key) {
    const shown = this.found.map((at) => this.buttons[at]);
    const across = Math.max(1, shown.filter((button) => button.offsetTop === shown[0].offsetTop).length);
    const by = { ArrowDown: across, ArrowUp: -across, ArrowRight: 1, ArrowLeft: -1 }[key];
    const next = this.chosen < 0 ? 0 : this.chosen + by;
    if (next >= 0 && next < shown.length) this.choose(next);
  }

  key(event) {
    const field = $("filter");
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.key === "Enter") {
      if (this.marked) { event.preventDefault(); this.take(this.found[this.chosen]); }
    } else if (event.key === "Escape") {
      if (!field.value) { $("answers").focus(); return; }
      event.stopPropagation(); // it emptied the field, and does nothing else
      this.reset();
    } else if (event.key.startsWith("Arrow") && this.found.length) {
      const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
      if (sideways && field.selectionStart !== field.value.length) return;
      event.preventDefault();
      this.step(event.key);
    }
  }

  // The row of classes used last: a new one takes the place of the one that was not used for the longest time.
  used(at) {
    this.uses += 1;
    const known = this.row.find((place) => place.at === at);
    if (known) { known.used = this.uses; return; }
    if (this.row.length < PLACES) this.row.push({ at, used: this.uses });
    else Object.assign(this.row.reduce((a, b) => (a.used < b.used ? a : b)), { at, used: this.uses });
    $("recent").replaceChildren(...this.row.map((place, number) => el("button", { title: this.names[place.at], "data-recent": place.at, onclick: () => this.take(place.at) },
      el("kbd", { "aria-hidden": "true" }, recentKey(number)), el("span", { dir: "auto" }, this.names[place.at]))));
  }

  takeRecent(number) {
    if (this.row[number]) this.take(this.row[number].at);
  }
}
