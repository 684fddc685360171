// A kernel or a graph at first glance.

const rounded = (n, digits) => String(+n.toPrecision(digits));
const microseconds = (ms) => `${rounded(ms * 1e3, 3)} µs`;
const percent = (n) => `${Math.round(n * 100)} %`;
const bytes = (n) => (n >= 1024 ? `${rounded(n / 1024, 3)} KiB` : `${n} B`);
const onTarget = (p) => p.cost.chips.find((c) => c.chip === p.target) ?? p.cost.chips[0];

function number(n) {
  if (n >= 1e6) return `${rounded(n / 1e6, 3)} M`;
  return n >= 1e4 ? `${rounded(n / 1e3, 3)} k` : rounded(n, 4);
}

function overviewView() {
  return part().kind === "graph" ? graphView() : kernelView();
}

const sentencesHtml = (p) => html`<div class="prose">${p.sentences.map((s) => `<p>${inline(s)}</p>`)}</div>`;

function kernelView() {
  const p = part(), chip = onTarget(p), { grid, simdgroups } = p.cost;
  const facts = [
    [grid.filter((n, i) => n > 1 || i === 0).join(" × "), "programs"],
    [simdgroups, simdgroups === 1 ? "simdgroup each" : "simdgroups each"],
    [p.registers.most, `of ${p.registers.have} registers a thread`],
    [bytes(p.memory.bytes), `of ${bytes(p.memory.most)} threadgroup memory`],
  ];
  if (chip) {
    facts.push([microseconds(chip.milliseconds), `on ${chip.chip}, by the cost model`]);
    facts.push([limit(chip), "is the bottleneck"]);
  }
  const tiles = facts.map(([n, what]) => `<div><dt>${escaped(what)}</dt><dd>${escaped(n)}</dd></div>`);
  return html`
    <h2>@${escaped(p.name)}</h2>
    <dl class="facts">${tiles}</dl>
    ${sentencesHtml(p)}${timeView(p)}${countersView(p)}${(p.schedules ?? []).map(schedulesView)}`;
}

const BUSY = {
  alu: "arithmetic",
  matrix: "matrix products",
  shared: "threadgroup memory",
  shuffle: "shuffles",
  L1: "first cache",
  L2: "second cache",
};

const limit = (chip) => BUSY[chip.bottleneck] ?? chip.bottleneck;
const bar = (kind, part, title = "") =>
  `<i class="busy-${kind}" style="width:${part * 100}%" title="${title}"></i>`;

/** Where a program spends the cycles of a core, on each chip. */
function timeView(p) {
  const total = (c) => Object.values(c.spent).reduce((a, b) => a + b, 0);
  const most = Math.max(...p.cost.chips.map(total), 1);
  const rows = p.cost.chips.map((c) => {
    const spent = Object.entries(c.spent).filter(([, n]) => n);
    const words = ([where, n]) => `${BUSY[where]}: ${number(n)} cycles`;
    const bars = spent.map((each) => bar(each[0], each[1] / most, words(each)));
    return html`
      <tr${c.chip === p.target && ' class="own"'}>
        <th scope="row">${c.chip}</th>
        <td class="wide"><div class="bar" role="img" aria-label="${spent.map(words).join(", ")}">${bars}</div></td>
        <td>${microseconds(c.milliseconds)}</td><td>${limit(c)}</td><td>${c.simdgroups}</td>
        <td>${percent(c.peak)}</td><td>${percent(c.bandwidth)}</td>
      </tr>`;
  });
  const legend = Object.entries(BUSY).map(([where, name]) => `<li><i class="busy-${where}"></i>${name}</li>`);
  return html`
    <h3>What it costs</h3>
    <ul class="legend">${legend}</ul>
    <div class="scroll"><table>
      <thead><tr>
        <th>chip</th><th class="wide">cycles of a core, for one program</th><th>a launch</th>
        <th>bottleneck</th><th>simdgroups on a core</th><th>of peak flops</th><th>of bandwidth</th>
      </tr></thead>
      <tbody>${rows}</tbody>
    </table></div>`;
}

/** What a program does, by the cost model, after each pass on Metal IR. */
function countersView(p) {
  const counts = p.stages.map((s, n) => ({ ...s, n })).filter((s) => s.counters);
  if (!counts.length) return "";
  const columns = Object.keys(counts[0].counters).filter((what) => counts.some((s) => s.counters[what]));
  const rows = counts.map((s, k) => {
    const cells = columns.map((what) => {
      const [now, old] = [s.counters[what], counts[k - 1]?.counters[what]];
      const kind = old === undefined || old === now ? "" : now < old ? "less" : "more";
      return `<td class="${kind}">${number(now)}</td>`;
    });
    const link = address({ stage: s.n, tab: "changes", line: -1 });
    return html`<tr><th scope="row"><a href="${link}">${escaped(s.name)}</a></th>${cells}</tr>`;
  });
  return html`
    <h3>Counters of one program, pass by pass</h3>
    <div class="scroll"><table class="numbers">
      <thead><tr><th>after</th>${columns.map((c) => `<th>${c}</th>`)}</tr></thead>
      <tbody>${rows}</tbody>
    </table></div>`;
}

/** The schedules that were considered for a kernel of a graph. */
function schedulesView({ name, considered, refused }) {
  const most = Math.max(...considered.map((c) => c.microseconds ?? 0));
  const rows = considered.map((c) => html`
    <tr${c.is_chosen && ' class="own"'}>
      <td>${c.microseconds === null ? "no room" : `${c.microseconds.toFixed(1)} µs`}</td>
      <td class="wide"><div class="bar">${bar("alu", (c.microseconds ?? 0) / most)}</div></td>
      <td>${c.programs}</td>
      <td class="left">
        <code>${escaped(c.schedule)}</code>${c.is_chosen && " <b>chosen</b>"}
        ${c.reason && `<br><small>${escaped(c.reason)}</small>`}
      </td>
    </tr>`);
  return html`
    <h3>Schedules considered for @${escaped(name)}</h3>
    <div class="scroll"><table class="considered">
      <thead><tr><th>time</th><th class="wide"></th><th>programs</th><th class="left">schedule</th></tr></thead>
      <tbody>${rows}</tbody>
    </table></div>
    ${refused.length > 0 && html`<ul>${refused.map((why) => `<li>${escaped(why)}</li>`)}</ul>`}`;
}

// The picture of a graph.

const BOX = { width: 250, line: 18, gapX: 40, gapY: 64, side: 190, pad: 12, letters: 38 };
const ARROW = `
  <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
    <path d="M0 0L8 4L0 8z"/>
  </marker>`;

function graphView() {
  const p = part();
  const list = (reasons) => html`<ul class="prose">${reasons.map((w) => `<li>${placed(w)}</li>`)}</ul>`;
  return html`
    <h2>@${escaped(p.name)}</h2>
    ${sentencesHtml(p)}
    <div class="scroll">${pictureSvg(p.picture)}</div>
    ${p.why.length > 0 && html`<h3>Why tensors go through memory</h3>${list(p.why)}`}
    ${p.apart.length > 0 && html`<h3>Why kernels that share no tensor are not one</h3>${list(p.apart)}`}`;
}

/** A reason, with links to the lines of Python that it names. */
function placed(reason) {
  return inline(reason).replace(/(?:[^\s:]*\/)?([^\s/:]+):(\d+)/g, (words, name, line) => {
    const file = DATA.files.findIndex((f) => f.name === name);
    const place = placeNumbers.get(`${file}:${line}`);
    return place === undefined ? words : `<a href="${address({ place, line: -1 })}">${name}:${line}</a>`;
  });
}

/** The lines in a box, each with its kind: time and limit, ops, arguments that are read. */
function boxLines(box) {
  const time = box.kernel < 0 ? undefined : onTarget(PARTS[box.kernel]);
  return [
    ...(time ? [["time", `${microseconds(time.milliseconds)}, ${limit(time)}`]] : []),
    ...(box.ops.length ? wrapped(box.ops.join(", "), BOX.letters - 2).map((l) => ["ops", l]) : []),
    ...box.reads.map((r) => ["reads", r]),
  ];
}

function wrapped(words, width) {
  const lines = [""];
  for (const word of words.split(" ")) {
    if (lines.at(-1).length + word.length > width) lines.push("");
    lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
  }
  return lines;
}

function pictureSvg({ boxes, edges }) {
  const rows = [];
  for (const [n, box] of boxes.entries()) {
    // The kernels of a graph come right after it; the last box is what it returns.
    box.kernel = n < boxes.length - 1 ? here.part + 1 + n : -1;
    box.lines = boxLines(box);
    box.height = BOX.line * (box.lines.length + 1) + 2 * BOX.pad;
    (rows[box.row] ??= []).push(box);
  }
  const across = (count) => count * (BOX.width + BOX.gapX) - BOX.gapX;
  const width = across(Math.max(...rows.map((r) => r.length))) + 2 * BOX.side;
  let y = BOX.pad;
  for (const r of rows) {
    const left = (width - across(r.length)) / 2;
    r.forEach((box, n) => Object.assign(box, { x: left + n * (BOX.width + BOX.gapX), y }));
    y += Math.max(...r.map((box) => box.height)) + BOX.gapY;
  }
  const lines = edges.map((edge) => edgeSvg(edge, boxes, edges));
  const height = y - BOX.gapY + BOX.pad;
  const label = "Kernels and the tensors between them";
  return html`
    <svg class="picture" width="${width}" height="${height}" role="group" aria-label="${label}">
      <defs>${ARROW}</defs>
      ${lines.map(([path]) => path)}${lines.map(([, words]) => words)}${boxes.map(boxSvg)}
    </svg>`;
}

/** The line of an edge, and its label. */
function edgeSvg(edge, boxes, edges) {
  const [a, b] = [boxes[edge.from], boxes[edge.to]];
  const isNext = (e) => boxes[e.to].row - boxes[e.from].row < 2;
  // Those that lead past other boxes leave and arrive on the right.
  const inOrder = (all) => all.sort((e, f) => isNext(f) - isNext(e));
  const into = inOrder(edges.filter((e) => e.to === edge.to));
  const out = inOrder(edges.filter((e) => e.from === edge.from));
  const at = (box, all) => box.x + (BOX.width * (all.indexOf(edge) + 1)) / (all.length + 1);
  const [x1, y1, x2, y2] = [at(a, out), a.y + a.height, at(b, into), b.y - 2];
  const height = y2 - 12 - 15 * into.filter((e) => isNext(e) === isNext(edge)).indexOf(edge);
  const label = (x, anchor) => svgText(x, height, "tensor", anchor, edge.label);
  const line = (path) => `<path d="${path}" marker-end="url(#tip)"/>`;
  if (isNext(edge)) {
    const bend = Math.min(30, (y2 - y1) / 2);
    const path = `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
    return [line(path), label(x2 - 7, "end")];
  }
  // Past the boxes in between, on their right.
  const between = boxes.filter((c) => c.row > a.row && c.row < b.row);
  const side = Math.max(...between.map((c) => c.x + BOX.width)) + 24 + 14 * into.indexOf(edge);
  const down = `M${x1} ${y1}C${x1} ${y1 + 40} ${side} ${y1 + 10} ${side} ${y1 + 50}V${y2 - 50}`;
  return [line(`${down}C${side} ${y2 - 10} ${x2} ${y2 - 44} ${x2} ${y2}`), label(side + 7, "start")];
}

function boxSvg(box) {
  const short = (line) => (line.length > BOX.letters ? `${line.slice(0, BOX.letters - 1)}…` : line);
  const [left, first] = [box.x + BOX.pad, box.y + BOX.pad + 13];
  const inner = html`
    <rect x="${box.x}" y="${box.y}" width="${BOX.width}" height="${box.height}" rx="8"/>
    ${svgText(left, first, "title", "start", box.name)}
    ${box.lines.map(([kind, line], n) => svgText(left, first + (n + 1) * BOX.line, kind, "start", short(line)))}`;
  if (box.kernel < 0) return `<g class="box">${inner}</g>`;
  return `<a class="box kernel" href="${partAddress(box.kernel)}">${inner}</a>`;
}
