// Which key means what. Classes have 1 to 9 and 0, then letters that nothing else uses; a class called by one sign of
// the keyboard has that sign, and a command that had it moves. What stands on the buttons and in the help comes from here.

const COMMANDS = {
  unsure: "u", none: "n", broken: "b", skip: "s", undo: "z", why: "w", guide: "g", theme: "d", find: "f", history: "h", help: "?",
  larger: "+", smaller: "-", fit: "0",
};
const CLASS_KEYS = [..."1234567890", ..."qertyopajklxcvm"];
export const MANY = 16; // with more classes than this they are found by typing, so plain letters are letters
const ALT = /Mac|iP/.test(navigator.platform) ? "⌥" : "Alt+";

// The keys of a project: one for every class (none where there are many), one for every command.
export function keyboard(names) {
  const many = names.length > MANY;
  const classes = many ? [] : classKeys(names);
  const commands = Object.fromEntries(Object.entries(COMMANDS).map(([command, key]) => [command, classes.includes(key) ? elsewhere(key) : key]));
  return { many, classes, commands };
}

function classKeys(names) {
  const signs = names.map((name) => (/^[!-~]$/.test(name) ? name.toLowerCase() : null));
  const own = signs.map((sign, at) => (signs.indexOf(sign) === at ? sign : null)); // "a" and "A" are one key: the first has it
  const rest = CLASS_KEYS.filter((key) => !own.includes(key));
  return own.map((key) => key ?? rest.shift());
}

// Where a command goes whose key a class has taken; other signs have no second place, but each has a button.
function elsewhere(key) {
  if (key === "0") return "Backspace";
  return /[a-z]/.test(key) ? `Shift+${key}` : null;
}

// How a command's key is written. With many classes the field has the letters, so all but "?" are told with Alt.
export function keyOf(board, command) {
  const key = board.commands[command];
  return board.many && command !== "help" ? `${ALT}${key}` : key;
}

export const recentKey = (place) => `${ALT}${place + 1}`;

// What a key press asks for: { answer }, the number of a class; { recent }, a place among the classes used last;
// { command }; or nothing. With many classes, Alt and a key is the command of that key also where somebody writes.
export function meaning(board, event) {
  const sign = signOf(event);
  const named = (key) => Object.keys(COMMANDS).find((command) => board.commands[command] === key);
  if (event.altKey) {
    if (/^[1-9]$/.test(sign)) return { recent: Number(sign) - 1 };
    return { command: Object.keys(COMMANDS).find((command) => COMMANDS[command] === (sign === "=" ? "+" : sign)) };
  }
  const moved = event.shiftKey && named(`Shift+${sign}`);
  if (moved) return { command: moved };
  const answer = board.classes.indexOf(sign);
  if (answer >= 0) return { answer };
  return { command: sign === "Backspace" ? "fit" : named(sign === "=" ? "+" : sign) };
}

// The sign of a key, in lower case; where Alt makes another sign of it (as on a Mac), the one that is printed on the key.
function signOf(event) {
  const printed = /^(?:Key|Digit)(.)$/.exec(event.code);
  if (event.altKey && printed && !/^[!-~]$/.test(event.key)) return printed[1].toLowerCase();
  return event.key.length === 1 ? event.key.toLowerCase() : event.key;
}

// Keys are for labelling unless somebody writes.
export function isWriting(target) {
  return target instanceof HTMLInputElement ? !["checkbox", "range", "button"].includes(target.type)
    : target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}
