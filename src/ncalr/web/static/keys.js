// Which key means which class: 1 to 9 and 0, then letters that nothing else uses.

export const COMMANDS = {
  u: "unsure", n: "none", b: "broken", s: "skip", z: "undo", w: "why", g: "guide", d: "theme", f: "find", h: "history", "?": "help",
};
const CLASS_KEYS = [..."1234567890", ..."qertyopajklxcvm"];
export const MANY = 16;

// A class that is called by one sign has that sign as its key ("7" is 7); the others get what is left, in order.
export function classKeys(names) {
  if (names.length > MANY) return [];
  const own = names.map((name) => (name.length === 1 && CLASS_KEYS.includes(name.toLowerCase()) ? name.toLowerCase() : null));
  const rest = CLASS_KEYS.filter((key) => !own.includes(key));
  return own.map((key) => key ?? rest.shift());
}

// Keys are for labelling unless somebody writes.
export function isWriting(target) {
  return target instanceof HTMLInputElement ? !["checkbox", "range", "button"].includes(target.type)
    : target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}
