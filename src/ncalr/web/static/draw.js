// Small drawings: bars, and a curve with its interval.

import { el, percent } from "./dom.js";

// Names and numbers are as large as any text, however wide the place is: a drawing that is scaled would shrink them.
export function bars(rows, most = 0) {
  const longest = most || Math.max(...rows.map((row) => row.value), 1e-9);
  return el("div", { class: "bars", role: "img", "aria-label": rows.map((row) => `${row.name}: ${row.label}`).join(", ") }, ...rows.flatMap((row) => {
    const line = el("span", { class: "barline" });
    line.style.width = `${(100 * row.value) / longest}%`;
    line.hidden = !(row.value > 0);
    return [el("span", { class: "name", dir: "auto", title: row.name }, row.name), el("span", { class: "barback" }, line), el("span", { class: "count" }, row.label)];
  }));
}

export function curve(points, width = 720, height = 240) {
  const [left, right, top, bottom] = [46, 12, 12, 34];
  const most = Math.max(...points.map((point) => point.labels)) || 1;
  const least = Math.min(...points.map((point) => point.labels));
  const px = (labels) => left + ((labels - least) / Math.max(most - least, 1)) * (width - left - right);
  const py = (share) => top + (1 - share) * (height - top - bottom);
  const svg = el("svg:svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Accuracy estimated after ${points.map((p) => `${p.labels} labels: ${percent(p.share)}`).join(", ")}` });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(el("svg:line", { x1: left, x2: width - right, y1: py(share), y2: py(share), class: "axis" }),
      el("svg:text", { x: left - 8, y: py(share) + 4, "text-anchor": "end" }, percent(share)));
  }
  const band = [...points.map((p) => `${px(p.labels)},${py(p.high)}`), ...points.slice().reverse().map((p) => `${px(p.labels)},${py(p.low)}`)];
  svg.append(el("svg:polygon", { points: band.join(" "), class: "band" }),
    el("svg:polyline", { points: points.map((p) => `${px(p.labels)},${py(p.share)}`).join(" "), class: "line" }));
  for (const p of points) {
    svg.append(el("svg:line", { x1: px(p.labels), x2: px(p.labels), y1: py(p.low), y2: py(p.high), class: "axis" }),
      el("svg:circle", { cx: px(p.labels), cy: py(p.share), r: 4, class: "dot" },
        el("svg:title", {}, `${p.labels} labels: ${percent(p.share)} (${percent(p.low)} to ${percent(p.high)}), ${p.total} control items`)));
  }
  svg.append(el("svg:text", { x: left, y: height - 8 }, `${least} labels`), el("svg:text", { x: width - right, y: height - 8, "text-anchor": "end" }, `${most} labels`));
  return svg;
}

// The project's own settings, in words. A strategy is told by its name, and ncal and ncal(…) by what it goes by.
const NCAL = "its label would move the geometry of the classes, or the model kept changing its mind about it";
const REASONS = {
  random: () => "It came from the first order, drawn at random before there was a model.",
  control: ({ control }) => `It was set aside at random, before anything was known about it: ${percent(control)} of the items are, unmarked, to measure the model's accuracy.`,
  strategy: ({ strategy }) => (/^ncal\b/.test(strategy) ? `NCAL-R chose it: ${NCAL}.`
    : /^ncal_coverage\b/.test(strategy) ? "It is like many items without a label, and the model is unsure about them."
    : `The strategy of this project, ${strategy}, put it first.`),
  review: () => "A second look: either its label looked doubtful, or it is a control. You are not told which.",
  adjudicate: () => "People disagreed about it, or nobody was sure.",
  again: () => "One more opinion was wanted.",
};

export function reason(why, classes) {
  const out = [el("p", {}, REASONS[why.arm]?.(why) ?? "It was asked for.")];
  const rows = [];
  if (why.cmap_rank !== undefined) rows.push({ name: "CMAP", value: why.cmap_rank, label: `above ${percent(why.cmap_rank)}` });
  if (why.ff_rank !== undefined) rows.push({ name: "FF (flips)", value: why.ff_rank, label: `above ${percent(why.ff_rank)}` });
  if (why.dynamics !== undefined) out.push(el("p", {}, `The model's doubt about it: ${percent(why.dynamics)}.`));
  if (rows.length) out.push(el("h3", {}, "Compared with the rest of the pool"), bars(rows, 1));
  if (why.cmap_rank !== undefined) {
    out.push(el("p", { class: "soft" }, "CMAP: how much it would turn the class means against each other. FF: how often its prediction flipped late in the training."));
  }
  if (why.near?.length) {
    out.push(el("h3", {}, "Nearest class means"),
      bars(why.near.map(([at, value]) => ({ name: classes[at] ?? `class ${at}`, value: Math.max(value, 0), label: value.toFixed(2) })), 1),
      el("p", { class: "soft" }, "Cosine between the item's features and each class mean, both from the centre of the pool."));
  }
  if (why.predicted !== null && why.predicted !== undefined) out.push(el("p", {}, `The model's own guess, before you answered: ${classes[why.predicted]}.`));
  out.push(el("p", { class: "soft" }, `Queue ${why.epoch}.`));
  return out;
}
