// The item on the stage: a picture that can be zoomed, moved and lit, or a text. The file itself is never changed.

import { $, el, show } from "./dom.js";

const TINY = 96;
let scale = 1;
let x = 0;
let y = 0;

export async function present(item, kind) {
  reset();
  show($("unshown"), false);
  show($("text"), kind === "text");
  show($("picture-frame"), false);
  show($("stage-tools"), kind === "image");
  named(item);
  if (kind === "text") {
    const empty = !item.text?.trim();
    $("text").textContent = empty ? "(empty text)" : item.text;
    $("text").classList.toggle("soft", empty);
    $("text").classList.toggle("long", (item.text ?? "").length > 700);
    $("text").scrollTop = 0;
    return;
  }
  await item.ready;
  if (!item.url) {
    $("unshown").replaceChildren(...unshown(item));
    show($("unshown"), true);
    return;
  }
  const picture = $("picture");
  picture.classList.toggle("tiny", Math.max(item.width, item.height) <= TINY);
  picture.alt = "The picture to label";
  picture.src = item.url;
  show($("picture-frame"), true);
  named(item);
}

// The item's name, small in a corner: to speak about it with others, and to find the file; which page, where it has several.
function named(item) {
  const page = item.pages > 1 ? `page 1 of ${item.pages}` : "";
  const words = [item.name?.split("/").at(-1), page].filter(Boolean);
  show($("item-name"), words.length > 0);
  $("item-name").textContent = words.join(" · ");
  $("item-name").title = item.name ?? "";
}

// Why there is no picture, in words for people: what a decoder says about itself stays out of it.
function unshown(item) {
  const name = item.name ? el("b", { dir: "auto" }, item.name) : "The file";
  if (item.later) return [el("p", {}, "There is no connection, and this picture was not fetched before. It comes as soon as the connection is back.")];
  if (/no such picture/.test(item.problem)) {
    return [el("p", {}, name, " is not where it was."), el("p", {}, "Was the folder moved? Ask whoever started the server before you mark anything as broken.")];
  }
  const told = /cannot be shown: (.)(.*)$/.exec(item.problem);
  const plain = told ? `${told[1].toUpperCase()}${told[2]}.` : "It may be damaged, or no picture at all.";
  return [el("p", {}, name, " cannot be shown as a picture."), el("p", {}, `${plain} You can mark it as broken.`)];
}

export function clear() {
  $("picture").removeAttribute("src");
  $("text").textContent = "";
  show($("item-name"), false);
}

function place() {
  $("picture").style.transform = scale === 1 && !x && !y ? "" : `translate(${x}px, ${y}px) scale(${scale})`;
}

export function zoom(factor, cx = 0, cy = 0) {
  const next = Math.min(Math.max(scale * factor, 1), 16);
  x = cx - ((cx - x) * next) / scale;
  y = cy - ((cy - y) * next) / scale;
  scale = next;
  if (scale === 1) x = y = 0;
  place();
}

export function reset() {
  scale = 1;
  x = y = 0;
  place();
  for (const [id, value] of [["brightness", 100], ["contrast", 100]]) $(id).value = value;
  $("invert").checked = false; // "sharp pixels" is a matter of taste and stays
  lit();
}

function lit() {
  $("picture").classList.toggle("sharp", $("pixels").checked);
  const [b, c, i] = [$("brightness").value, $("contrast").value, $("invert").checked];
  $("picture").style.filter = b === "100" && c === "100" && !i ? "" : `brightness(${b}%) contrast(${c}%) invert(${i ? 1 : 0})`;
}

export function prepareStage() {
  const frame = $("picture-frame");
  const fingers = new Map();
  const middle = (event) => {
    const box = frame.getBoundingClientRect();
    return [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
  };
  frame.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * 0.0016), ...middle(event));
  }, { passive: false });
  frame.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event);
    frame.setPointerCapture(event.pointerId);
    frame.classList.add("moving");
  });
  frame.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    if (fingers.size === 2) {
      const [other] = [...fingers.values()].filter((finger) => finger.pointerId !== event.pointerId);
      const distance = (a, b) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
      zoom(distance(event, other) / Math.max(distance(before, other), 1), ...middle(event));
    } else if (scale > 1) {
      x += event.clientX - before.clientX;
      y += event.clientY - before.clientY;
      place();
    }
    fingers.set(event.pointerId, event);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    frame.addEventListener(name, (event) => { fingers.delete(event.pointerId); frame.classList.remove("moving"); });
  }
  frame.addEventListener("dblclick", () => (scale > 1 ? reset() : zoom(3)));
  $("zoom-in").addEventListener("click", () => zoom(1.5));
  $("zoom-out").addEventListener("click", () => zoom(1 / 1.5));
  $("zoom-reset").addEventListener("click", reset);
  $("light-reset").addEventListener("click", reset);
  for (const id of ["brightness", "contrast", "invert", "pixels"]) $(id).addEventListener("input", lit);
  $("light-button").addEventListener("click", () => {
    show($("light"), $("light").hidden);
    $("light-button").setAttribute("aria-expanded", String(!$("light").hidden));
  });
}
