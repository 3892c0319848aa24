// The guidelines: shown in a panel, announced when they change. Answers are given under the version that this person was
// shown, also over a reload, until the panel was opened.

import { $, el, show } from "./dom.js";
import { ask } from "./net.js";
import { markdown } from "./markdown.js";
import { notice } from "./notices.js";

export class Guide {
  constructor(project, person, labelling) {
    Object.assign(this, { project, labelling, key: `ncalr-guide:${person.key}` });
    const known = localStorage.getItem(this.key); // so this server was here before, and asks for versions
    if (known !== null) labelling.guideline = Math.min(Number(known), project.guideline.version);
    this.paint();
  }

  paint() {
    const { text, version } = this.project.guideline;
    $("guide-text").replaceChildren(...(text.trim() ? markdown(text) : [el("p", { class: "soft" }, "Nobody has written guidelines yet.")]), el("p", { class: "soft" }, `Version ${version}`));
  }

  // The server has this version; it is fetched where it is another.
  async is(version) {
    if (version !== this.project.guideline.version) {
      this.project.guideline = (await ask("GET", "/api/project")).guideline;
      this.paint();
    }
    const newest = this.project.guideline.version;
    if (localStorage.getItem(this.key) === null && this.project.guideline.text.trim()) this.open(); // the first visit: what is wanted here comes before the first answer
    const shown = Math.min(Number(localStorage.getItem(this.key) ?? newest), newest);
    this.shown(shown);
    notice("guide", shown < newest ? "The guidelines changed." : null, "Read them", () => this.open());
  }

  // Before the server has told a version it does not want one with the answers.
  shown(version) {
    localStorage.setItem(this.key, version);
    this.labelling.guideline = version;
  }

  // The newest are on the screen, or whoever is here wrote them.
  read() {
    if (this.labelling.guideline === undefined) return;
    this.shown(this.project.guideline.version);
    notice("guide", null);
  }

  get isOpen() { return !$("guide").hidden; }

  open() {
    show($("guide"), true);
    $("guide-button").setAttribute("aria-expanded", "true");
    $("guide-close").focus();
    this.read();
  }

  close() {
    show($("guide"), false);
    $("guide-button").setAttribute("aria-expanded", "false");
  }

  flip() { if (this.isOpen) this.close(); else this.open(); }
}
