// The list of keys, as they are in this project.

import { $, el } from "./dom.js";
import { keyOf, recentKey } from "./keys.js";

const COMMANDS = [
  [["unsure"], "unsure: somebody else is asked"], [["none"], "none of these"], [["broken"], "broken item"], [["skip"], "skip: it comes back later"],
  [["undo"], "undo, as far back as you like"], [["why"], "why the last item was picked"], [["history"], "your answers, to change one"], [["guide"], "guidelines"],
  [["larger", "smaller", "fit"], "zoom and fit"], [["theme"], "light or dark"],
];

export function listKeys(board) {
  const rows = board.many
    ? [[["Enter"], "takes the class that is marked: type to find it, or move the mark with the arrow keys"], [[recentKey(0), "…"], "a class used lately"],
      [["Esc"], "leaves the field; then the letters below work without Alt"], [[keyOf(board, "find")], "back to the field"]]
    : [[[board.classes[0], "…"], "a class, by the key on its button"]];
  for (const [commands, text] of COMMANDS) {
    const keys = commands.map((command) => keyOf(board, command)).filter(Boolean);
    if (keys.length) rows.push([keys, text]);
  }
  $("keys").replaceChildren(...rows.flatMap(([names, text]) => [el("dt", {}, ...names.flatMap((name) => [el("kbd", {}, name), " "])), el("dd", {}, text)]));
}
