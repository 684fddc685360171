// The page: drawn anew wherever the reader goes, by link, key or click.

const $ = (id) => document.getElementById(id);

const TEXTS = ["changes", "ir", "metal", "run"]; // views with lines
const TABS = [
  { name: "overview", title: "Overview", shown: () => true, draw: overviewView },
  { name: "changes", title: "Changes", shown: () => true, draw: changesView },
  { name: "ir", title: "IR", shown: () => true, draw: () => listed(text()) },
  { name: "metal", title: "Metal", shown: () => part().msl, draw: () => listed(part().msl) },
  { name: "run", title: "Run", shown: () => part().run, draw: runView },
  { name: "layouts", title: "Layouts", shown: () => part().layouts?.length, draw: layoutsView },
  { name: "memory", title: "Memory", shown: () => part().memory, draw: memoryView },
];

const tabsShown = () => TABS.filter((tab) => tab.shown());
let drawnAt = "";

function show() {
  readAddress();
  const tab = TABS.find((t) => t.name === here.tab);
  $("parts").innerHTML = partsPanel();
  $("passes").innerHTML = passesPanel();
  $("tabs").innerHTML = html`${tabsShown().map((t) => html`
    <a role="tab" id="tab-${t.name}" href="${address({ tab: t.name, line: -1 })}" aria-controls="view"
      aria-selected="${String(t === tab)}" tabindex="${t === tab ? 0 : -1}">${t.title}</a>`)}`;
  // The text is drawn only if it is another one: that is the slow part.
  const at = [here.part, here.tab, ["changes", "ir"].includes(here.tab) ? here.stage : ""].join();
  if (at !== drawnAt) {
    $("view").innerHTML = tab.draw();
    $("view").setAttribute("aria-labelledby", `tab-${tab.name}`);
    $("view").scrollTop = 0;
    drawnAt = at;
    find();
  }
  $("value").innerHTML = valuePanel();
  $("says").textContent = valueSentence();
  $("source").innerHTML = sourcePanel();
  markValue();
  markPlace();
  markLine();
  for (const list of ["parts", "passes"]) {
    $(list).querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }
  if (tab.name === "run") markRun();
}

/** Mark the chosen value wherever it stands; in the text before a pass, what it was called there. */
function markValue() {
  $("view").querySelectorAll(".chosen").forEach((e) => e.classList.remove("chosen"));
  if (!here.value) return;
  const old = stage().text ? before(stage().text - 1, here.value) : "";
  for (const span of $("view").querySelectorAll("[data-value]")) {
    const name = span.closest("[data-side=old]") ? old : here.value;
    span.classList.toggle("chosen", span.dataset.value === name);
  }
}

function markPlace() {
  for (const line of document.querySelectorAll("[data-place]")) {
    line.classList.toggle("linked-now", Number(line.dataset.place) === here.place);
  }
  if (here.place >= 0 && here.line < 0) {
    const linked = [...$("view").querySelectorAll(".linked-now")];
    if (!linked.some(isSeen)) bring(linked[0]);
    bring($("source").querySelector(".linked-now"));
  }
}

function markLine() {
  $("view").querySelectorAll(".here").forEach((e) => e.classList.remove("here"));
  if (here.line < 0 || !TEXTS.includes(here.tab)) return;
  const lines = $("view").querySelectorAll(`[data-line="${here.line}"]:not([data-side=old])`);
  lines.forEach((e) => e.classList.add("here"));
  bring(lines[0]);
}

function bring(element) {
  element?.closest("details")?.setAttribute("open", "");
  element?.scrollIntoView({ block: "nearest" });
}

function isSeen(element) {
  const { top, bottom } = element.getBoundingClientRect(), frame = $("view").getBoundingClientRect();
  return bottom > frame.top && top < frame.bottom;
}

// Search: the lines of the shown text, and the passes after which the program has the words.

let hits = [], hit = -1;

function find() {
  const words = $("search").value.trim().toLowerCase();
  CSS.highlights?.delete("found");
  $("view").querySelectorAll(".hit").forEach((e) => e.classList.remove("hit"));
  const has = (line) => words !== "" && line.toLowerCase().includes(words);
  hits = [...$("view").querySelectorAll(".line")].filter((line) => has(line.textContent));
  hit = -1;
  hits.forEach((line) => line.classList.add("hit"));
  if (words) CSS.highlights?.set("found", new Highlight(...hits.flatMap((line) => ranges(line, words))));
  const inText = part().texts.map((t) => t.lines.some(has));
  const stages = part().stages.map((s) => inText[s.text]);
  for (const link of $("passes").querySelectorAll("[data-stage]")) {
    link.classList.toggle("has", stages[link.dataset.stage]);
  }
  const count = `${counted(hits.length, "line")} here, ${stages.filter(Boolean).length} of ${stages.length} stages`;
  $("found").textContent = words ? count : "";
}

/** Where words stand in a line, within single tokens. */
function ranges(line, words) {
  const found = [], walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const at = walker.currentNode.data.toLowerCase().indexOf(words);
    if (at < 0) continue;
    const range = new Range();
    range.setStart(walker.currentNode, at);
    range.setEnd(walker.currentNode, at + words.length);
    found.push(range);
  }
  return found;
}

function nextHit(by) {
  if (!hits.length) return;
  hit = (hit + by + hits.length) % hits.length;
  $("view").querySelectorAll(".here").forEach((e) => e.classList.remove("here"));
  hits[hit].classList.add("here");
  bring(hits[hit]);
}

// Clicks.

document.addEventListener("click", (event) => {
  // Another tab, or text that is selected to be copied.
  if (event.ctrlKey || event.metaKey || event.shiftKey || String(getSelection())) return;
  const at = (selector) => event.target.closest(selector);
  const link = at("a"), value = at("[data-value]"), line = at(".line");
  if (value && !at("#value, #passes")) {
    event.preventDefault();
    chooseValue(value.dataset.value, line);
  } else if (event.target.closest("[data-layout]")) {
    const { layout } = event.target.closest("[data-layout]").dataset;
    const number = (part().layouts ?? []).findIndex((l) => l.text === layout);
    if (number >= 0) {
      layoutChosen = number;
      drawnAt = "";
      go({ tab: "layouts" });
    }
  } else if (link && link.classList.contains("n")) {
    event.preventDefault();
    if (line.dataset.side !== "old") go({ line: Number(line.dataset.line) });
  } else if (link && link.getAttribute("href")?.startsWith("#in=")) {
    event.preventDefault();
    visit(link.getAttribute("href"));
  } else if (event.target.closest("[data-choose]")) {
    layoutChosen = Number(event.target.closest("[data-choose]").dataset.choose);
    registerChosen = -1;
    redraw();
  } else if (at("[data-by]")) toStep(here.step + Number(at("[data-by]").dataset.by));
  else if (event.target.closest(".live")) go({ tab: "ir", stage: part().stages.length - 1, line: chartLine(event) });
  else if (event.target.closest("#unchoose")) go({ value: "" });
  else if (line?.dataset.place && at("#view")) {
    go({ place: Number(line.dataset.place), line: line.dataset.side === "old" ? -1 : Number(line.dataset.line) });
  }
});

/** Choose a value that was clicked: on a line of the text, or else named in another view. */
function chooseValue(name, line) {
  if (!line) return go({ stage: stageWith(name), value: name, tab: "ir", line: -1 });
  const place = Number(line.dataset.place ?? -1);
  if (line.dataset.side !== "old") return go({ value: name, line: -1, place });
  const now = part().steps[stage().text - 1].names[name] ?? name;
  if (now) return go({ value: now, line: -1, place });
  // A value that the pass removed is looked at where it was last.
  return go({ stage: lastStageOf(stage().text - 1), value: name, tab: "ir", line: -1, place });
}

function redraw() {
  drawnAt = "";
  show();
}

/** The last stage with a text; the last one in which a value of this name is defined. */
const lastStageOf = (n) => part().stages.findLastIndex((s) => s.text === n);
const stageWith = (name) => part().stages.findLastIndex((s) => namesOf(text(s.text)).get(name)?.defined >= 0);

$("view").addEventListener("input", (event) => {
  if (event.target.id === "step") toStep(Number(event.target.value));
  if (event.target.id !== "register") return;
  registerChosen = Number(event.target.value);
  redraw();
  $("register").focus();
});

$("search").addEventListener("input", find);
$("finder").addEventListener("submit", (event) => {
  event.preventDefault();
  const word = $("search").value.trim();
  if (namesOf(text()).has(word)) go({ value: word });
  nextHit(1);
});

// Keys.

const changedStages = () => part().stages.map((s, n) => n).filter((n) => n === 0 || part().stages[n].changed);

function step(by) {
  const all = changedStages();
  const next = by > 0 ? all.find((n) => n > here.stage) : all.findLast((n) => n < here.stage);
  if (next !== undefined) go({ stage: next, line: -1, value: carried(next), tab: irTab("changes") });
}

function letGo() {
  $("search").value = "";
  find();
  go({ value: "", line: -1, place: -1 });
}

const KEYS = {
  j: ["next pass that changed something", () => step(1)],
  k: ["the one before", () => step(-1)],
  "]": ["next kernel", () => visit(partAddress((here.part + 1) % PARTS.length))],
  "[": ["the one before", () => visit(partAddress((here.part + PARTS.length - 1) % PARTS.length))],
  "/": ["search", () => $("search").focus()],
  n: ["next line found", () => nextHit(1)],
  N: ["the one before", () => nextHit(-1)],
  Escape: ["let go of value, line and search", letGo],
  d: ["light or dark", () => $("theme").click()],
  "?": ["this list", () => $("keys").showModal()],
  ...(PARTS.some((p) => p.run) ? RUN_KEYS : {}),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input") && event.key !== "Escape") return;
  if (event.target.matches("[role=tab]") && /^Arrow(Left|Right)$/.test(event.key)) {
    const all = tabsShown(), now = all.findIndex((t) => t.name === here.tab);
    const next = all[(now + (event.key === "ArrowRight" ? 1 : all.length - 1)) % all.length];
    go({ tab: next.name, line: -1 });
    $(`tab-${here.tab}`).focus();
    return;
  }
  const tab = /^[1-9]$/.test(event.key) && tabsShown()[event.key - 1];
  if (tab) go({ tab: tab.name, line: -1 });
  else if (KEYS[event.key] && !$("keys").open) {
    event.preventDefault();
    document.activeElement?.blur?.();
    KEYS[event.key][1]();
  }
});

$("keys").innerHTML =
  html`
    <h2>Keys</h2>
    <dl>
      ${Object.entries(KEYS).map(([key, [what]]) => `<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}
      <div><dt><kbd>1</kbd> to <kbd>${TABS.length}</kbd></dt><dd>views</dd></div>
    </dl>
    <form method="dialog"><button>Close</button></form>`;
$("help").addEventListener("click", () => $("keys").showModal());
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const chosen = root.style.colorScheme;
  const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.style.colorScheme = isDark ? "light" : "dark";
});
addEventListener("popstate", () => {
  shown = location.hash;
  show();
});
show();
