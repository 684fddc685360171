// What the page shows, and where the reader is in it.

const DATA = JSON.parse(document.getElementById("data").textContent);
const PARTS = DATA.parts;

// Where the reader is. All of it is in the address, so that a link leads back here.
const here = { part: 0, stage: 0, tab: "", value: "", line: -1, place: -1, step: 0 };

const part = () => PARTS[here.part];
const stage = () => part().stages[here.stage];
const text = (n = stage().text) => part().texts[n];

/** The first stage that shows something: the last pass that changed the program much. */
function firstStage(of) {
  const sizes = of.stages.map((s) => s.size);
  return sizes.indexOf(Math.max(...sizes));
}

function readAddress() {
  const said = new URLSearchParams(shown.slice(1));
  const number = PARTS.findIndex((p) => p.name === said.get("in"));
  here.part = number < 0 ? 0 : number;
  const last = part().stages.length - 1;
  here.stage = said.has("pass") ? Math.min(Number(said.get("pass")) || 0, last) : firstStage(part());
  here.tab = TABS.some((t) => t.name === said.get("show") && t.shown()) ? said.get("show") : part().run ? "run" : "overview";
  here.value = said.get("value") ?? "";
  here.line = said.has("line") ? Number(said.get("line")) : -1;
  here.place = said.has("from") ? Number(said.get("from")) : -1;
  if (here.tab !== "run") return;
  here.stage = 0;
  here.step = Math.min(Number(said.get("step")) || 0, lastStep());
  here.place = part().texts[0].at[part().run.lines[here.step]] ?? -1;
}

function address(change = {}) {
  const to = { ...here, ...change };
  const words = new URLSearchParams();
  words.set("in", PARTS[to.part].name);
  words.set("pass", to.stage);
  words.set("show", to.tab);
  if (to.value) words.set("value", to.value);
  if (to.line >= 0) words.set("line", to.line);
  if (to.tab === "run") words.set("step", to.step);
  else if (to.place >= 0) words.set("from", to.place);
  return "#" + words;
}

let shown = location.hash;

/** Go to an address of this page: a new entry of the browser's history, or in place of this one. */
function visit(to, how = "pushState") {
  if (to !== shown) {
    shown = to;
    // The frame of a notebook has no address to change.
    if (location.protocol !== "about:") history[how](null, "", to);
  }
  show();
}

/** The address of a kernel or graph as it is first shown. */
function partAddress(number) {
  const stage = firstStage(PARTS[number]);
  return address({ part: number, stage, tab: "overview", value: "", line: -1, place: -1 });
}

/** Go somewhere else. */
function go(change, how) {
  visit(address(change), how);
}

/** Where the names of a text stand: on which line each is defined, and on which it is used. */
function namesOf(t) {
  if (!t.names) {
    t.names = new Map();
    t.lines.forEach((line, number) => {
      for (const [, name, after] of line.matchAll(/(%\w+)(: )?/g)) {
        if (!t.names.has(name)) t.names.set(name, { defined: -1, used: [] });
        const known = t.names.get(name);
        if (after && known.defined < 0) known.defined = number;
        else if (known.used.at(-1) !== number) known.used.push(number);
      }
    });
  }
  return t.names;
}

/** What a value of one text is called in each text of the part: "" where it is not there. */
function followed(name, from) {
  const called = Array(part().texts.length).fill("");
  called[from] = name;
  for (let n = from; n < part().steps.length && called[n]; n++) {
    called[n + 1] = part().steps[n].names[called[n]] ?? called[n];
  }
  for (let n = from; n > 0 && called[n]; n--) called[n - 1] = before(n - 1, called[n]);
  return called;
}

/** What a value was called in the text before a step. */
function before(n, name) {
  const { names } = part().steps[n];
  const there = namesOf(part().texts[n]);
  if (there.has(name) && (names[name] ?? name) === name) return name;
  return Object.keys(names).find((old) => names[old] === name) ?? "";
}
