// Creates elements. Text is always set as text and never as markup. Shapes have SVG attributes and no inline styles.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element with a class, and children that are elements or text. */
export function el(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** An element of SVG. */
export function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** A label with its value. */
export function pair(label, value, className) {
  return el("div", "pair " + (className || ""), el("dt", "", label), el("dd", "", value));
}

const WIDE = 240;
const HIGH = 36;

/** The last ten minutes as a line, with gaps for missing data. */
export function sparkline(history, label) {
  const steps = history ? history.events_per_s : [];
  const undecided = history ? history.undecided_per_s : [];
  const most = Math.max(1e-9, ...steps.filter((step) => step !== null));
  const svg = shape("svg", { class: "spark", viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": label });
  const x = (place) => WIDE - (steps.length - 1 - place) * (WIDE / 119);
  const y = (value) => HIGH - 2 - (value / most) * (HIGH - 4);
  svg.append(shape("line", { class: "base", x1: 0, x2: WIDE, y1: HIGH - 1, y2: HIGH - 1 }));
  for (const run of runs(steps)) {
    const points = run.map((place) => `${x(place).toFixed(1)} ${y(steps[place]).toFixed(1)}`);
    const [first, last] = [x(run[0]).toFixed(1), x(run[run.length - 1]).toFixed(1)];
    svg.append(shape("path", { class: "under", d: `M${first} ${HIGH - 1}L${points.join("L")}L${last} ${HIGH - 1}Z` }));
    svg.append(shape("path", { class: "line", d: "M" + points.join("L") }));
  }
  for (const run of runs(undecided)) {
    const points = run.map((place) => `${x(place).toFixed(1)} ${y(Math.min(undecided[place], most)).toFixed(1)}`);
    svg.append(shape("path", { class: "bad", d: "M" + points.join("L") }));
  }
  return svg;
}

/** Runs of consecutive points with known values. */
function runs(steps) {
  const found = [];
  let run = [];
  steps.forEach((step, place) => {
    if (step !== null) run.push(place);
    else if (run.length > 0) {
      found.push(run);
      run = [];
    }
  });
  if (run.length > 0) found.push(run);
  return found;
}

/** A bar that shows a share. An unknown share is an empty, marked bar. */
export function bar(share, label, marks) {
  const svg = shape("svg", { class: "bar", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": label });
  svg.append(shape("rect", { class: share === null || share === undefined ? "track unknown" : "track", width: 100, height: 6 }));
  const [much, most] = marks || [0.8, 1];
  if (share > 0) {
    const kind = share >= most ? "bad" : share >= much ? "warn" : "good";
    svg.append(shape("rect", { class: "fill " + kind, width: Math.max(1.5, Math.min(1, share) * 100), height: 6 }));
  }
  return svg;
}

/** A bar of several parts of a whole: `[[class, part], ...]`. */
export function parts(whole, pieces, label) {
  const svg = shape("svg", { class: "bar", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": label });
  svg.append(shape("rect", { class: "track", width: 100, height: 6 }));
  let at = 0;
  for (const [kind, part] of pieces) {
    if (part > 0 && whole > 0) {
      const width = (part / whole) * 100;
      svg.append(shape("rect", { class: "fill " + kind, x: at, width, height: 6 }));
      at += width;
    }
  }
  return svg;
}
