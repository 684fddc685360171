// What stands around the text: passes, the chosen value, the Python source.

/** The view of a text that is shown now, or another one if that is none of IR. */
const irTab = (other) => (["changes", "ir"].includes(here.tab) ? here.tab : other);

function passesPanel() {
  const p = part();
  const most = Math.max(...p.stages.map((s) => s.size), 1);
  const parts = [];
  let level = "", quiet = [];
  const flush = () => {
    const count = quiet.length === 1 ? "1 pass" : `${quiet.length} passes`;
    const summary = `<summary>${count} changed nothing</summary>`;
    const isOpen = quiet.includes(here.stage);
    const items = quiet.map((n) => stageLink(n, most));
    if (items.length) parts.push(html`<details class="quiet"${isOpen && " open"}>${summary}${items}</details>`);
    quiet = [];
  };
  p.stages.forEach((s, n) => {
    if (s.level !== level) {
      flush();
      level = s.level;
      parts.push(`<h2>${level}</h2>`);
    }
    if (n && !s.changed) quiet.push(n);
    else {
      flush();
      parts.push(stageLink(n, most));
    }
  });
  flush();
  const total = p.stages.reduce((sum, s) => sum + s.ms, 0);
  return html`${parts}<p class="total">${p.stages.length - 1} passes, ${milliseconds(total)}</p>`;
}

function stageLink(n, most) {
  const s = part().stages[n];
  const link = address({ stage: n, tab: irTab("changes"), line: -1, value: carried(n) });
  const width = Math.max(4, Math.sqrt(s.size / most) * 100);
  return html`
    <a class="stage" data-stage="${n}"${n === here.stage && ' aria-current="step"'} href="${link}">
      <span class="name">${escaped(s.name)}</span>
      <span class="size">${s.size > 0 && `<i style="width:${width}%"></i>`}</span>
      <span class="count">${s.size > 0 && s.size}</span>
      <span class="ms">${n > 0 && milliseconds(s.ms)}</span>
    </a>`;
}

/** What the chosen value is called at another stage; none where it is not there. */
function carried(n) {
  return here.value ? followed(here.value, stage().text)[part().stages[n].text] : "";
}

function partsPanel() {
  if (PARTS.length < 2) return "";
  return html`${PARTS.map((p, n) => html`
    <a href="${partAddress(n)}"${n === here.part && ' aria-current="page"'}>
      ${escaped(p.name)}${p.kind === "graph" && " <small>graph</small>"}
    </a>`)}`;
}

/** What a screen reader says when a value is chosen. */
function valueSentence() {
  const known = namesOf(text()).get(here.value);
  if (!known) return "";
  return `${here.value}, defined on line ${known.defined + 1}, used on ${counted(known.used.length, "line")}`;
}

/** The chosen value: where it is defined and used, and what it is after each pass. */
function valuePanel() {
  if (!here.value) {
    return `<p class="hint">Click a value to see where it is defined and used, and to follow it through the passes.</p>`;
  }
  const head = html`
    <h2>
      <span class="t-value">${escaped(here.value)}</span>
      <button type="button" id="unchoose" aria-label="Let go of the value">×</button>
    </h2>`;
  const known = namesOf(text()).get(here.value);
  if (!known) return html`${head}<p class="note">It is not in the program after ${escaped(stage().name)}.</p>`;
  const link = (n) => html`
    <li><a href="${address({ line: n, tab: irTab("ir") })}">
      <span class="n">${n + 1}</span><code>${lineHtml(text().lines[n].trim())}</code>
    </a></li>`;
  const list = (title, lines) => html`<h3>${title}</h3><ul class="lines">${lines.map(link)}</ul>`;
  const times = known.used.length;
  const used = times === 0 ? "Never used" : times === 1 ? "Used once" : `Used on ${times} lines`;
  return html`
    ${head}${valueNowHtml()}
    ${known.defined >= 0 && list("Defined", [known.defined])}
    ${list(used, known.used)}
    <h3>Through the passes</h3>${traceHtml()}`;
}

/** One value through every pass: a line for each that changes how it is defined. */
function traceHtml() {
  const p = part(), called = followed(here.value, stage().text);
  const items = [];
  let last = "", same = 0;
  const quiet = () => {
    if (same) items.push(`<li class="quiet">${same === 1 ? "1 pass leaves" : `${same} passes leave`} it as it is</li>`);
    same = 0;
  };
  p.stages.forEach((s, n) => {
    const line = definitionIn(s.text, called[s.text]);
    const words = line.replace(/%\w+/g, "%");
    if (words === last) {
      same += last ? 1 : 0;
      return;
    }
    quiet();
    last = words;
    const isShown = s.text === stage().text;
    const link = address({ stage: n, value: called[s.text], line: -1, tab: "changes" });
    items.push(html`
      <li${isShown && ' aria-current="step"'}>
        <a href="${link}">${escaped(s.name)}</a>
        ${line ? `<code>${lineHtml(line)}</code>` : "<em>gone</em>"}
      </li>`);
  });
  quiet();
  return html`<ol class="trace">${items}</ol>`;
}

function definitionIn(n, name) {
  const known = namesOf(part().texts[n]).get(name);
  return known && known.defined >= 0 ? part().texts[n].lines[known.defined].trim() : "";
}

/** The Python that the program comes from; lines that ops come from can be chosen. */
function sourcePanel() {
  return html`${DATA.files.map((file, f) => {
    const spans = file.spans.map(({ first, lines }) => lines.map((line, k) => sourceLine(f, first + k, line)));
    const body = spans.map((lines) => lines.join("")).join(`<div class="gap">⋯</div>`);
    return body && html`
      <h2 title="${escaped(file.path)}">${escaped(file.name)}</h2><div class="code python">${body}</div>`;
  })}`;
}

const placeNumbers = new Map(DATA.places.map(([file, line], n) => [`${file}:${line}`, n]));

function sourceLine(file, number, line) {
  const place = placeNumbers.get(`${file}:${number}`);
  const body = `<span class="n">${number}</span><code>${pythonHtml(line)}</code>`;
  if (place === undefined) return `<div class="line">${body}</div>`;
  const link = address({ place, line: -1 });
  return `<a class="line linked" href="${link}" data-place="${place}">${body}</a>`;
}

const PYTHON = new RegExp(
  [
    /(?<comment>#.*)/,
    /(?<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')/,
    /(?<control>\b(?:def|for|in|if|else|elif|while|return|and|or|not|with|as|import|from|None|True|False)\b)/,
    /(?<number>\b\d[\w.]*)/,
    /(?<symbol>@[\w.]+)/,
  ].map((each) => each.source).join("|"),
  "g",
);

function pythonHtml(line) {
  let html = "", end = 0;
  for (const match of line.matchAll(PYTHON)) {
    const [kind] = Object.entries(match.groups).find(([, w]) => w !== undefined);
    html += escaped(line.slice(end, match.index)) + `<span class="t-${kind}">${escaped(match[0])}</span>`;
    end = match.index + match[0].length;
  }
  return html + escaped(line.slice(end));
}
