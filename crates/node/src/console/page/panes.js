// The panes of the page. Each pane creates its elements from an overview.

import { bar, el, pair, parts, shape, sparkline } from "./draw.js";
import { brief, bytes, chance, count, duration, left, ms, percent, plural, rate, signedMs } from "./words.js";

/** Number of filters that are shown until the user asks for all. */
export const FILTERS_FIRST = 24;
/** Number of nodes above which each node is a small tile. */
const NODES_LARGE = 12;
/** Number of alarms that are shown until the user asks for all. */
const ALARMS_FIRST = 8;

export function alarms(overview, all, showAll) {
  if (overview.alarms.length === 0) {
    return [el("p", "calm", el("span", "dot good"), "Nothing needs a look.")];
  }
  const shown = all ? overview.alarms : overview.alarms.slice(0, ALARMS_FIRST);
  const list = el("ul", "plain", ...shown.map(alarm));
  const more = overview.alarms.length - shown.length;
  if (more === 0) return [list];
  const button = el("button", "", `Show ${plural(more, "more alarm", "more alarms")}`);
  button.type = "button";
  button.addEventListener("click", showAll);
  return [list, button];
}

function alarm(alarm) {
  const item = el("li", "alarm " + alarm.severity);
  item.append(el("p", "", el("span", "tag", alarm.severity === "critical" ? "Critical" : "Warning"), alarm.text));
  if (alarm.command) {
    const copy = el("button", "copy", "Copy");
    copy.type = "button";
    copy.dataset.command = alarm.command;
    copy.setAttribute("aria-label", "Copy the command");
    item.append(el("div", "command", el("span", "quiet on", alarm.on ? "on " + alarm.on : ""), el("code", "", alarm.command), copy));
  }
  return item;
}

export function totals(overview) {
  const { verdicts, slices, nodes } = overview;
  const up = nodes.filter((node) => node.state === "up").length;
  const card = (label, value, unit, more) =>
    el("div", "card", el("h3", "", label), el("p", "figure", value, el("span", "unit", unit)), ...more);
  const undecided = el("p", verdicts.undecided_per_s > 0 ? "small bad-text" : "small quiet", brief(verdicts.undecided_per_s) + " undecided");
  const kinds = el("p", "small quiet", `${brief(verdicts.first_seen_per_s)} first seen, ${brief(verdicts.duplicate_per_s)} duplicates`);
  const states = [["good", slices.complete], ["warn", slices.set_only], ["bad", slices.down]];
  const said = [[slices.set_only, "set-only"], [slices.down, "down"], [slices.moving, "moving"], [slices.copy_lacks, "lack a copy"]];
  const what = said.filter(([number]) => number > 0).map(([number, word]) => `${count(number)} ${word}`);
  const used = nodes.map((node) => node.memory_used_bytes);
  const memory = used.every((value) => value === null) ? null : used.reduce((sum, value) => sum + (value || 0), 0);
  const limit = nodes.reduce((sum, node) => sum + node.memory_limit_bytes, 0);
  return [
    card("Events a second", brief(rate(verdicts)), "", [kinds, undecided, sparkline(overview.history, "Events a second in the last ten minutes")]),
    card("Nodes up", String(up), ` of ${nodes.length + overview.nodes_left_out}`, [bar(nodes.length ? up / nodes.length : null, "Nodes up", [2, 3])]),
    card("Slices complete", count(slices.complete), ` of ${count(slices.all)}`, [parts(slices.all, states, "Slices by state"), el("p", "small quiet", what.join(", ") || "none lacks anything")]),
    card("Memory of cells", bytes(memory), ` of ${bytes(limit)}`, [bar(memory === null || !limit ? null : memory / limit, "Memory used", [0.95, 1])]),
  ];
}

export function work(overview) {
  return overview.work.map((line) => {
    const leftText = line.left === null ? "" : `${plural(line.left, line.unit.replace(/s$/, ""), line.unit)} left`;
    const bytesText = line.bytes_left === null ? "" : `up to ${bytes(line.bytes_left)}`;
    const waits = line.unchanged_s >= 10 ? `no change for ${duration(line.unchanged_s)}` : "";
    const figures = [leftText, bytesText, waits].filter(Boolean).join(", ");
    return el("li", "line", el("span", "tag calm-tag", line.kind), el("span", "grow", el("b", "", line.filter), " " + line.text), el("span", "quiet", figures));
  });
}

const STATES = { up: "up", down: "down", not_reached: "not reached", silent: "does not answer" };

/** The CSS class of a node's dot. */
function health(node) {
  if (node.state === "down") return "bad";
  if (node.state !== "up" || node.ready === false) return "warn";
  return "good";
}

export function nodes(overview) {
  const sites = new Map();
  for (const node of overview.nodes) {
    if (!sites.has(node.site)) sites.set(node.site, []);
    sites.get(node.site).push(node);
  }
  const small = overview.nodes.length > NODES_LARGE;
  const found = [];
  for (const [site, members] of sites) {
    const up = members.filter((node) => node.state === "up").length;
    const head = el("h3", "site", `Site ${site}`, el("span", "quiet", ` ${up} of ${members.length} up`));
    const list = el("ul", small ? "plain tiles" : "plain cards", ...members.map((node) => (small ? tile(node) : nodeCard(node, overview))));
    found.push(el("div", small ? "" : "site-group", head, list));
  }
  if (overview.nodes_left_out > 0) found.push(el("p", "quiet", `${plural(overview.nodes_left_out, "node is", "nodes are")} left out`));
  return found;
}

function tile(node) {
  const item = el("li", "tile " + health(node), el("span", "dot " + health(node)), el("b", "", node.name));
  const figures = node.state === "up" ? `${brief(node.events_per_s)}/s` : STATES[node.state] || node.state;
  item.append(el("span", "quiet figures", figures), bar(node.memory_used_bytes === null ? null : node.memory_used_bytes / node.memory_limit_bytes, "Memory used", [0.95, 1]));
  item.title = `${node.name}, ${STATES[node.state] || node.state}, version ${node.version ?? "unknown"}, memory ${bytes(node.memory_used_bytes)}, clock ${signedMs(node.clock_ahead_ms)}`;
  return item;
}

function nodeCard(node, overview) {
  const word = node.state === "up" && node.ready === false ? "not ready" : STATES[node.state] || node.state;
  const head = el("div", "row", el("h4", "", el("span", "dot " + health(node)), node.name), el("span", "state " + health(node), word));
  const facts = el("dl", "facts",
    pair("events/s", brief(node.events_per_s)),
    pair("slices", count(node.slices)),
    pair("clock", signedMs(node.clock_ahead_ms)),
    pair("certificate", left(node.certificate_ends_ms, overview.at_ms)),
    pair("version", node.version ?? "\u2013"),
    pair("agreement", node.leader ? "leads" : "follows"));
  const share = node.memory_used_bytes === null ? null : node.memory_used_bytes / node.memory_limit_bytes;
  const memory = el("p", "small quiet", `${bytes(node.memory_used_bytes)} of ${bytes(node.memory_limit_bytes)} for cells, ${bytes(node.memory_reserved_bytes)} when full`);
  return el("li", "card node", head, el("p", "small quiet", node.address), facts, bar(share, "Memory used", [0.95, 1]), memory);
}

/** How urgently a filter needs attention. */
function trouble(filter) {
  const { slices, verdicts } = filter;
  return (slices.down > 0 ? 8 : 0) + (verdicts.undecided_per_s > 0 ? 4 : 0) + (filter.full >= 0.8 ? 2 : 0) + (slices.set_only > 0 ? 1 : 0);
}

const ORDERS = {
  alarm: (a, b) => trouble(b) - trouble(a) || a.number - b.number,
  name: (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
  rate: (a, b) => (rate(b.verdicts) ?? -1) - (rate(a.verdicts) ?? -1) || a.number - b.number,
  full: (a, b) => (b.full ?? -1) - (a.full ?? -1) || a.number - b.number,
  undecided: (a, b) => (b.verdicts.undecided_per_s ?? -1) - (a.verdicts.undecided_per_s ?? -1) || a.number - b.number,
};

/** The filters that match the search, and their number. */
export function filters(overview, { search, sort, all }) {
  const words = search.toLowerCase();
  const found = overview.filters.filter((filter) => filter.name.toLowerCase().includes(words)).sort(ORDERS[sort] || ORDERS.alarm);
  const shown = all || words ? found : found.slice(0, FILTERS_FIRST);
  return { items: shown.map(filterItem), shown: shown.length, found: found.length };
}

function filterItem(filter) {
  const { verdicts, slices, claims } = filter;
  const marks = [];
  if (slices.down > 0) marks.push(el("span", "tag bad-tag", `${plural(slices.down, "slice", "slices")} down`));
  if (slices.set_only > 0) marks.push(el("span", "tag warn-tag", `${slices.set_only} set-only`));
  if (slices.moving > 0) marks.push(el("span", "tag calm-tag", `${slices.moving} moving`));
  if (slices.copy_lacks > 0) marks.push(el("span", "tag warn-tag", `${plural(slices.copy_lacks, "slice lacks", "slices lack")} a copy`));
  if (filter.silent_nodes.length > 0) marks.push(el("span", "tag warn-tag", `without ${filter.silent_nodes.join(", ")}`));
  const about = `${filter.kind}, window ${filter.window}, ${filter.slicing}`;
  const head = el("div", "what", el("h3", "", filter.name), el("p", "small quiet", about), el("p", "marks", ...marks));
  const room = filter.capacity_events === null ? count(filter.live_events) + " events" : `${brief(filter.live_events)} of ${brief(filter.capacity_events)}`;
  const full = el("div", "fullness", el("p", "small", el("b", "", percent(filter.full)), " full"), bar(filter.full, "How full"), el("p", "small quiet", room));
  const flow = el("div", "flow", el("p", "small", el("b", "", brief(rate(verdicts))), " events/s"), sparkline(filter.history, "Events a second in the last ten minutes"));
  const undecided = verdicts.undecided.filter((line) => line.per_s > 0);
  const reasons = (lines) => lines.map((line) => `${brief(line.per_s)}/s ${line.reason}`).join(", ");
  const [bad, usual] = [undecided.filter((line) => !line.harmless), undecided.filter((line) => line.harmless)];
  const facts = el("dl", "facts",
    pair("first seen/s", brief(verdicts.first_seen_per_s)),
    pair("duplicates/s", brief(verdicts.duplicate_per_s)),
    pair("undecided/s", brief(verdicts.undecided_per_s), verdicts.undecided_per_s > 0 ? "bad-text" : ""),
    pair("p50, p99", `${ms(filter.p50_ms)}, ${ms(filter.p99_ms)}`),
    pair("errors now", chance(filter.expected_rate)),
    pair(filter.measured_rate === null ? "made for" : "measured", chance(filter.measured_rate ?? filter.made_for_rate)));
  if (claims) facts.append(pair("held", count(claims.open)));
  const item = el("li", "card filter", head, full, flow, facts);
  if (bad.length > 0) item.append(el("p", "small bad-text reasons", "undecided: " + reasons(bad)));
  if (usual.length > 0) item.append(el("p", "small quiet reasons", "asked again: " + reasons(usual)));
  return item;
}

const STEP = 210;
const LEVEL = 96;

/** A filter tree by levels, with the hit rate of each level. */
export function trees(overview) {
  return overview.trees.map((tree) => {
    const places = layout(tree.places);
    const wide = Math.max(1, ...places.map((place) => place.x + 1)) * STEP;
    const high = (Math.max(0, ...tree.places.map((place) => place.level)) + 1) * LEVEL;
    const svg = shape("svg", { class: "tree", viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "img", "aria-label": `The places of ${tree.root}` });
    for (const place of places.filter((place) => place.parent)) {
      const [x, y] = [(place.x + 0.5) * STEP, place.level * LEVEL + 10];
      const [px, py] = [(place.parent.x + 0.5) * STEP, place.parent.level * LEVEL + 78];
      svg.append(shape("path", { class: "edge", d: `M${x} ${y}C${x} ${(y + py) / 2} ${px} ${(y + py) / 2} ${px} ${py}` }));
    }
    for (const place of places) svg.append(box(place));
    return el("div", "card", el("h3", "", tree.root, el("span", "quiet", ` ${tree.mode}`)), levels(tree), el("div", "scroll", svg));
  });
}

/** Layout of a tree: leaves are side by side, and each parent is centered above its children. */
function layout(lines) {
  const places = lines.map((line) => ({ ...line, parent: null, children: [], x: 0 }));
  places.forEach((place, index) => {
    place.parent = places.slice(0, index).find((other) => other.place === lines[index].parent) ?? null;
    if (place.parent) place.parent.children.push(place);
  });
  let next = 0;
  const put = (place) => {
    place.children.forEach(put);
    const { children } = place;
    place.x = children.length > 0 ? (children[0].x + children[children.length - 1].x) / 2 : next++;
  };
  places.filter((place) => place.parent === null).forEach(put);
  return places;
}

const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "\u2026" : text);

function box(place) {
  const [x, y] = [place.x * STEP + 10, place.level * LEVEL + 10];
  const text = (dy, className, words) => {
    const line = shape("text", { x: x + 12, y: y + dy, class: className });
    line.textContent = words;
    return line;
  };
  const climbs = place.level > 0 ? `, ${brief(place.climbed_per_s)}/s climb` : "";
  const owed = place.owed_events > 0 ? `, ${brief(place.owed_events)} to report` : "";
  return shape("g", {},
    shape("rect", { class: owed ? "place owing" : "place", x, y, width: STEP - 20, height: 68, rx: 8 }),
    text(21, "name", short(place.place, 20)),
    text(40, "", `${brief(place.asked_per_s)}/s asked${climbs}`),
    text(57, "", `${brief(place.found_per_s)}/s found here${owed}`));
}

/** Hits of each level, as shares of all events that producers ask about at a leaf or the root. */
function levels(tree) {
  const rows = [];
  const depth = Math.max(0, ...tree.places.map((place) => place.level));
  for (let level = depth; level >= 0; level -= 1) {
    const at = tree.places.filter((place) => place.level === level);
    const sum = (name) => (at.some((place) => place[name] !== null) ? at.reduce((all, place) => all + (place[name] ?? 0), 0) : null);
    const [asked, found] = [sum("asked_per_s"), sum("found_per_s")];
    const share = asked > 0 ? found / asked : null;
    rows.push(el("li", "line", el("span", "level", level === 0 ? "root" : `level ${level}`), bar(share, "Share found", [2, 3]), el("span", "quiet", `finds ${percent(share)} of ${brief(asked)}/s`)));
  }
  return el("ul", "plain levels", ...rows);
}
