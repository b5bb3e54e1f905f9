// The page of the console. It receives overviews and displays the newest one. It cannot change the cluster.

import { alarms, filters, nodes, totals, trees, work } from "./panes.js";
import { duration, plural } from "./words.js";

/** Time without an overview after which the connection counts as lost. */
const SILENCE_MAX_MS = 5000;

const at = (id) => document.getElementById(id);
const view = { search: "", sort: "alarm", all: false, allAlarms: false, paused: false };
let newest = null;
let shown = null;
let heardMs = null;
let problem = "";

/** Stores an overview. An overview without a history keeps the history of the previous one. */
function take(overview) {
  if (newest !== null && overview.history === null) {
    const before = new Map(newest.filters.map((filter) => [filter.number, filter.history]));
    overview.history = newest.history;
    for (const filter of overview.filters) filter.history = before.get(filter.number) ?? null;
  }
  newest = overview;
  heardMs = performance.now();
  problem = "";
  if (!view.paused) show(overview);
  state();
}

/** Replaces the children of an element that differ, unless the user has selected text there. Keeps focus and scrolling. */
function put(id, children) {
  const parent = at(id);
  const selection = document.getSelection();
  const isSelected = selection !== null && !selection.isCollapsed && parent.contains(selection.anchorNode);
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.command : null;
  if (isSelected) return;
  const next = document.createElement(parent.tagName);
  next.append(...children);
  const isSame = (node, index) => parent.childNodes[index]?.isEqualNode(node);
  if (next.childNodes.length === parent.childNodes.length && [...next.childNodes].every(isSame)) return;
  const scrolling = () => [...parent.querySelectorAll("code, .scroll")];
  const scrolled = scrolling().map((part) => part.scrollLeft);
  parent.replaceChildren(...next.childNodes);
  scrolling().forEach((part, index) => { part.scrollLeft = scrolled[index] ?? 0; });
  if (focused) [...parent.querySelectorAll("button")].find((button) => button.dataset.command === focused)?.focus();
}

function show(overview) {
  shown = overview;
  const { cluster } = overview;
  const many = (list, more, one, words) => plural(list.length + more, one, words);
  at("cluster").textContent = cluster.id === ""
    ? `node ${cluster.node} belongs to no cluster`
    : `${many(overview.nodes, overview.nodes_left_out, "node", "nodes")}, ${many(overview.filters, overview.filters_left_out, "filter", "filters")}, as ${cluster.node} sees them`;
  const critical = overview.alarms.filter((alarm) => alarm.severity === "critical").length;
  document.title = overview.alarms.length > 0 ? `(${critical || overview.alarms.length}) firstseen` : "firstseen";
  put("alarm-list", alarms(overview, view.allAlarms, () => {
    view.allAlarms = true;
    show(overview);
  }));
  put("totals", totals(overview));
  at("work").hidden = overview.work.length === 0;
  put("work-list", work(overview));
  put("node-list", nodes(overview));
  showFilters();
  at("trees").hidden = overview.trees.length === 0;
  put("tree-list", trees(overview));
  const leader = cluster.leader === null ? "led by nobody" : `led by ${cluster.leader}`;
  at("foot").textContent = `Cluster ${cluster.id || "none"}, ${leader}, map ${cluster.map_version}, format ${cluster.format}. Read-only; a dash is what is not known.`;
}

function showFilters() {
  const { items, shown: number, found } = filters(shown, view);
  put("filter-list", items);
  const out = shown.filters_left_out > 0 ? `; ${plural(shown.filters_left_out, "further filter is", "further filters are")} left out by the node` : "";
  at("filter-more").hidden = number === found && out === "" && found > 0;
  at("show-all").hidden = number === found;
  at("filter-count").textContent = found === 0 ? "No filter." : `${number} of ${plural(found, "filter", "filters")}${out}`;
}

/** Shows whether the displayed overview is current. */
function state() {
  const badge = at("state");
  const silent = heardMs !== null && performance.now() - heardMs > SILENCE_MAX_MS;
  const say = (text, kind) => {
    if (badge.textContent !== text) badge.textContent = text;
    badge.className = "badge " + kind;
  };
  document.body.classList.toggle("stale", silent || problem !== "");
  if (problem !== "") say(problem, "bad");
  else if (heardMs === null) say("connecting", "");
  else if (silent) say(`connection lost ${duration((performance.now() - heardMs) / 1000)} ago`, "bad");
  else if (view.paused) say("paused", "warn");
  else say("live", "good");
}

/** Receives events until the stream breaks, and then connects again. A node with too many viewers replies with an error. */
function listen() {
  const events = new EventSource("/events");
  events.addEventListener("overview", (event) => take(JSON.parse(event.data)));
  events.addEventListener("error", () => {
    // Browsers reconnect automatically after an interruption, but stop after a rejection.
    if (events.readyState === EventSource.CLOSED) {
      refused();
      setTimeout(listen, 5000);
    } else if (heardMs !== null) problem = "connection lost; trying again";
    state();
  });
}

async function refused() {
  try {
    const overview = await fetch("/api/v1/overview");
    if (overview.ok) {
      take(await overview.json());
      problem = "many look at this node: this is one look in five seconds";
    }
  } catch {
    problem = "connection lost; trying again";
  }
  state();
}

at("search").addEventListener("input", (event) => {
  view.search = event.target.value.trim();
  if (shown) showFilters();
});
at("sort").addEventListener("change", (event) => {
  view.sort = event.target.value;
  if (shown) showFilters();
});
at("show-all").addEventListener("click", () => {
  view.all = true;
  showFilters();
});
at("pause").addEventListener("click", () => {
  view.paused = !view.paused;
  at("pause").textContent = view.paused ? "Go on" : "Pause";
  at("pause").setAttribute("aria-pressed", String(view.paused));
  if (!view.paused && newest) show(newest);
  state();
});
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(button.dataset.command);
    button.textContent = "Copied";
  } catch {
    // Without a secure context there is no clipboard, so the command is selected and can be copied with the keyboard.
    document.getSelection().selectAllChildren(code);
    button.textContent = "Selected";
  }
});
setInterval(state, 1000);
listen();
