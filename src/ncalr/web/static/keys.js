// Which key means which class: 1 to 9 and 0, then letters that nothing else uses.

export const COMMANDS = {
  u: "unsure", n: "none", b: "broken", s: "skip", z: "undo", w: "why", g: "guide", d: "theme", f: "find", h: "history", "?": "help",
};
const CLASS_KEYS = [..."1234567890", ..."qertyopajklxcvm"];
export const MANY = 16;

export function classKeys(count) {
  return CLASS_KEYS.slice(0, Math.min(count, count > MANY ? 9 : CLASS_KEYS.length));
}

// Keys are for labelling unless somebody writes.
export function isWriting(target) {
  return target instanceof HTMLInputElement ? !["checkbox", "range", "button"].includes(target.type)
    : target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}
