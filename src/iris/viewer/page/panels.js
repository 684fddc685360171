// What stands around the text: passes, the chosen value, the Python source.

function passesPanel() {
  const p = part();
  const most = Math.max(...p.stages.map((s) => s.size), 1);
  let html = "", level = "", quiet = [];
  const flush = () => {
    if (!quiet.length) return;
    const open = quiet.some((n) => n === here.stage) ? " open" : "";
    html += `<details class="quiet"${open}><summary>${quiet.length} ${quiet.length === 1 ? "pass" : "passes"} changed nothing</summary>${quiet.map(item).join("")}</details>`;
    quiet = [];
  };
  const item = (n) => {
    const s = p.stages[n];
    const current = n === here.stage ? ' aria-current="step"' : "";
    const size = s.size ? `<span class="size"><i style="width:${Math.max(4, Math.sqrt(s.size / most) * 100)}%"></i></span><span class="count">${s.size}</span>` : `<span class="size"></span><span class="count"></span>`;
    return `<a class="stage" data-stage="${n}"${current} href="${address({ stage: n, tab: TEXTS.includes(here.tab) && here.tab !== "metal" ? here.tab : "changes", line: -1, value: carried(n) })}"><span class="name">${escaped(s.name)}</span>${size}<span class="ms">${n ? milliseconds(s.ms) : ""}</span></a>`;
  };
  p.stages.forEach((s, n) => {
    if (s.level !== level) {
      flush();
      level = s.level;
      html += `<h2>${level}</h2>`;
    }
    if (n && !s.changed) quiet.push(n);
    else {
      flush();
      html += item(n);
    }
  });
  flush();
  const total = p.stages.reduce((sum, s) => sum + s.ms, 0);
  return html + `<p class="total">${p.stages.length - 1} passes, ${milliseconds(total)}</p>`;
}

/** What the chosen value is called at another stage; none where it is not there. */
function carried(n) {
  return here.value ? followed(here.value, stage().text)[part().stages[n].text] : "";
}

function partsPanel() {
  if (PARTS.length < 2) return "";
  return PARTS.map((p, n) => `<a href="${kernelAddress(n)}"${n === here.part ? ' aria-current="page"' : ""}>${escaped(p.name)}${p.kind === "graph" ? " <small>graph</small>" : ""}</a>`).join("");
}

/** What a screen reader says when a value is chosen. */
function valueSentence() {
  const known = namesOf(text()).get(here.value);
  if (!known) return "";
  return `${here.value}, defined on line ${known.defined + 1}, used on ${known.used.length} lines`;
}

/** The chosen value: where it is defined and used, and what it is after each pass. */
function valuePanel() {
  if (!here.value) return `<p class="hint">Click a value to see where it is defined and used, and to follow it through the passes.</p>`;
  const known = namesOf(text()).get(here.value);
  const head = `<h2><span class="t-value">${escaped(here.value)}</span> <button type="button" id="unchoose" aria-label="Let go of the value">×</button></h2>`;
  if (!known) return head + `<p class="note">It is not in the program after ${escaped(stage().name)}.</p>`;
  const lines = text().lines;
  const link = (n) => `<li><a href="${address({ line: n, tab: TEXTS.includes(here.tab) && here.tab !== "metal" ? here.tab : "ir" })}"><span class="n">${n + 1}</span><code>${lineHtml(lines[n].trim())}</code></a></li>`;
  const uses = known.used.length ? `<h3>Used ${known.used.length === 1 ? "once" : `on ${known.used.length} lines`}</h3><ul class="lines">${known.used.map(link).join("")}</ul>` : `<h3>Never used</h3>`;
  return head + (known.defined < 0 ? "" : `<h3>Defined</h3><ul class="lines">${link(known.defined)}</ul>`) + uses + `<h3>Through the passes</h3>${traceHtml()}`;
}

/** One value through every pass: a line for each that changes how it is defined. */
function traceHtml() {
  const p = part(), called = followed(here.value, stage().text);
  const plain = (n) => (called[n] ? definitionIn(n, called[n]) : "");
  let items = "", last = null, same = 0;
  const quiet = () => {
    if (same) items += `<li class="quiet">${same} ${same === 1 ? "pass leaves" : "passes leave"} it as it is</li>`;
    same = 0;
  };
  p.stages.forEach((s, n) => {
    const line = plain(s.text);
    const key = line.replace(/%\w+/g, "%");
    if (key === last) { same++; return; }
    if (!line && !last) { last = key; return; }
    quiet();
    last = key;
    const body = line ? `<code>${lineHtml(line)}</code>` : `<em>gone</em>`;
    const current = s.text === stage().text ? ' aria-current="step"' : "";
    items += `<li${current}><a href="${address({ stage: n, value: called[s.text], line: -1, tab: "changes" })}">${escaped(s.name)}</a>${body}</li>`;
  });
  quiet();
  return `<ol class="trace">${items}</ol>`;
}

function definitionIn(n, name) {
  const known = namesOf(part().texts[n]).get(name);
  return known && known.defined >= 0 ? part().texts[n].lines[known.defined].trim() : "";
}

/** The Python that the program comes from; lines with ops of the shown text can be chosen. */
function sourcePanel() {
  const files = DATA.files.map((file, f) => {
    const spans = file.spans.map((span) => span.lines.map((line, k) => sourceLine(f, span.first + k, line)).join("")).join(`<div class="gap">⋯</div>`);
    return spans ? `<h2 title="${escaped(file.path)}">${escaped(file.name)}</h2><div class="code python">${spans}</div>` : "";
  });
  return files.join("");
}

const placeNumbers = new Map(DATA.places.map(([file, line], n) => [`${file}:${line}`, n]));

function sourceLine(file, number, line) {
  const place = placeNumbers.get(`${file}:${number}`);
  const linked = place === undefined ? "" : ` data-place="${place}"`;
  const body = `<span class="n">${number}</span><code>${pythonHtml(line)}</code>`;
  return place === undefined ? `<div class="line">${body}</div>` : `<a class="line linked" href="${address({ place, line: -1 })}"${linked}>${body}</a>`;
}

const PYTHON = /(?<comment>#.*)|(?<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<control>\b(?:def|for|in|if|else|elif|while|return|and|or|not|with|as|import|from|None|True|False)\b)|(?<number>\b\d[\w.]*)|(?<symbol>@[\w.]+)/g;

function pythonHtml(line) {
  let html = "", end = 0;
  for (const match of line.matchAll(PYTHON)) {
    const [kind] = Object.entries(match.groups).find(([, w]) => w !== undefined);
    html += escaped(line.slice(end, match.index)) + `<span class="t-${kind}">${escaped(match[0])}</span>`;
    end = match.index + match[0].length;
  }
  return html + escaped(line.slice(end));
}
