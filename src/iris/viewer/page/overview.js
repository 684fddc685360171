// A kernel or a graph at first glance.

const number = (n) => (n >= 1e6 ? `${+(n / 1e6).toPrecision(3)} M` : n >= 1e4 ? `${+(n / 1e3).toPrecision(3)} k` : String(+n.toPrecision(4)));
const microseconds = (ms) => `${+(ms * 1e3).toPrecision(3)} µs`;
const onTarget = (p) => p.cost.chips.find((c) => c.chip === p.target) ?? p.cost.chips[0];

function overviewView() {
  return part().kind === "graph" ? graphView() : kernelView();
}

function kernelView() {
  const p = part(), chip = onTarget(p);
  const facts = [
    [p.cost.grid.filter((n, i) => n > 1 || i === 0).join(" × "), "programs"],
    [p.cost.simdgroups, p.cost.simdgroups === 1 ? "simdgroup each" : "simdgroups each"],
    [p.registers.most, `of ${p.registers.have} registers a thread`],
    [bytes(p.memory.bytes), `of ${bytes(p.memory.most)} threadgroup memory`],
    ...(chip ? [[microseconds(chip.milliseconds), `on ${chip.chip}, by the cost model`], [limit(chip), "is the bottleneck"]] : []),
  ];
  return (
    `<h2>@${escaped(p.name)}</h2>` +
    `<dl class="facts">${facts.map(([n, what]) => `<div><dt>${escaped(what)}</dt><dd>${escaped(n)}</dd></div>`).join("")}</dl>` +
    `<div class="prose">${p.sentences.map((s) => `<p>${inline(s)}</p>`).join("")}</div>` +
    timeView(p) + countersView(p) + schedulesView(p)
  );
}

const bytes = (n) => (n >= 1024 ? `${+(n / 1024).toPrecision(3)} KiB` : `${n} B`);

const BUSY = { alu: "arithmetic", matrix: "matrix products", shared: "threadgroup memory", shuffle: "shuffles", L1: "first cache", L2: "second cache" };

const limit = (chip) => BUSY[chip.bottleneck] ?? chip.bottleneck;

/** Where a program spends the cycles of a core, on each chip. */
function timeView(p) {
  const most = Math.max(...p.cost.chips.map((c) => Object.values(c.spent).reduce((a, b) => a + b, 0)), 1);
  const rows = p.cost.chips.map((c) => {
    const bars = Object.entries(c.spent).filter(([, n]) => n).map(([where, n]) =>
      `<i class="busy-${where}" style="width:${(n / most) * 100}%" title="${BUSY[where]}: ${number(n)} cycles"></i>`);
    return `<tr${c.chip === p.target ? ' class="own"' : ""}><th scope="row">${c.chip}</th><td class="wide"><div class="bar" role="img" aria-label="${
      Object.entries(c.spent).map(([w, n]) => `${BUSY[w]} ${number(n)}`).join(", ")} cycles">${bars.join("")}</div></td>` +
      `<td>${microseconds(c.milliseconds)}</td><td>${limit(c)}</td><td>${c.simdgroups}</td><td>${Math.round(c.peak * 100)} %</td><td>${Math.round(c.bandwidth * 100)} %</td></tr>`;
  });
  const legend = Object.entries(BUSY).map(([where, name]) => `<li><i class="busy-${where}"></i>${name}</li>`).join("");
  return `<h3>What it costs</h3><ul class="legend">${legend}</ul><div class="scroll"><table><thead><tr><th>chip</th><th class="wide">cycles of a core, for one program</th><th>a launch</th><th>bottleneck</th><th>simdgroups on a core</th><th>of peak flops</th><th>of bandwidth</th></tr></thead><tbody>${rows.join("")}</tbody></table></div>`;
}

/** What a program does, by the cost model, after each pass on Metal IR. */
function countersView(p) {
  const counted = p.stages.map((s, n) => ({ ...s, n })).filter((s) => s.counters);
  if (!counted.length) return "";
  const columns = Object.keys(counted[0].counters).filter((what) => counted.some((s) => s.counters[what]));
  const rows = counted.map((s, k) => {
    const cells = columns.map((what) => {
      const [now, old] = [s.counters[what], counted[k - 1]?.counters[what]];
      const how = old === undefined || old === now ? "" : now < old ? ' class="less"' : ' class="more"';
      return `<td${how}>${number(now)}</td>`;
    });
    return `<tr><th scope="row"><a href="${address({ stage: s.n, tab: "changes" })}">${escaped(s.name)}</a></th>${cells.join("")}</tr>`;
  });
  return `<h3>Counters of one program, pass by pass</h3><div class="scroll"><table class="numbers"><thead><tr><th>after</th>${columns.map((c) => `<th>${c}</th>`).join("")}</tr></thead><tbody>${rows.join("")}</tbody></table></div>`;
}

/** The schedules that were considered, of a kernel of a graph. */
function schedulesView(p) {
  return (p.schedules ?? []).map((of) => {
    const most = Math.max(...of.considered.map((c) => c.microseconds ?? 0));
    const rows = of.considered.map((c) =>
      `<tr${c.is_chosen ? ' class="own"' : ""}><td>${c.microseconds === null ? "no room" : `${c.microseconds.toFixed(1)} µs`}</td>` +
      `<td class="wide"><div class="bar"><i class="busy-alu" style="width:${((c.microseconds ?? 0) / most) * 100}%"></i></div></td>` +
      `<td>${c.programs}</td><td class="left"><code>${escaped(c.schedule)}</code>${c.is_chosen ? " <b>chosen</b>" : ""}${c.reason ? `<br><small>${escaped(c.reason)}</small>` : ""}</td></tr>`);
    const refused = of.refused.map((why) => `<li>${escaped(why)}</li>`).join("");
    return `<h3>Schedules considered for @${escaped(of.name)}</h3><div class="scroll"><table class="considered"><thead><tr><th>time</th><th class="wide"></th><th>programs</th><th class="left">schedule</th></tr></thead><tbody>${rows.join("")}</tbody></table></div>${refused ? `<ul>${refused}</ul>` : ""}`;
  }).join("");
}

// The picture of a graph.

const BOX = { width: 250, line: 18, gapX: 40, gapY: 64, side: 190, pad: 12 };

function graphView() {
  const p = part();
  const list = (reasons) => `<ul class="prose">${reasons.map((w) => `<li>${placed(w)}</li>`).join("")}</ul>`;
  return (
    `<h2>@${escaped(p.name)}</h2><div class="prose">${p.sentences.map((s) => `<p>${inline(s)}</p>`).join("")}</div>` +
    `<div class="scroll">${pictureSvg(p.picture)}</div>` +
    (p.why.length ? `<h3>Why tensors go through memory</h3>${list(p.why)}` : "") +
    (p.apart.length ? `<h3>Why kernels that share no tensor are not one</h3>${list(p.apart)}` : "")
  );
}

/** A reason, with links to the lines of Python that it names. */
function placed(reason) {
  return inline(reason).replace(/(?:[^\s:]*\/)?([^\s/:]+):(\d+)/g, (words, name, line) => {
    const file = DATA.files.findIndex((f) => f.name === name);
    const place = placeNumbers.get(`${file}:${line}`);
    return place === undefined ? words : `<a href="${address({ place, line: -1 })}">${name}:${line}</a>`;
  });
}

function boxLines(box) {
  const time = box.kernel < 0 ? undefined : onTarget(PARTS[box.kernel]);
  return [
    ...(time ? [["time", `${microseconds(time.milliseconds)}, ${limit(time)}`]] : []),
    ...box.ops.length ? wrapped(box.ops.join(", "), 36).map((l) => ["ops", l]) : [],
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
    const lines = boxLines(box);
    const height = BOX.line * (lines.length + 1) + 2 * BOX.pad;
    (rows[box.row] ??= []).push(Object.assign(box, { shownLines: lines, height }));
  }
  const wide = Math.max(...rows.map((r) => r.length));
  const width = wide * (BOX.width + BOX.gapX) + 2 * BOX.side;
  let y = BOX.pad;
  for (const r of rows.filter(Boolean)) {
    r.forEach((box, n) => {
      box.x = (width - r.length * (BOX.width + BOX.gapX) + BOX.gapX) / 2 + n * (BOX.width + BOX.gapX);
      box.y = y;
    });
    y += Math.max(...r.map((box) => box.height)) + BOX.gapY;
  }
  const lines = edges.map((edge) => edgeSvg(edge, boxes, edges));
  const paths = [...lines.map((l) => l[0]), ...lines.map((l) => l[1])].join("");
  const drawnBoxes = boxes.map(boxSvg).join("");
  return `<svg class="picture" width="${width}" height="${y - BOX.gapY + BOX.pad}" role="group" aria-label="Kernels and the tensors between them"><defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>${paths}${drawnBoxes}</svg>`;
}

function edgeSvg(edge, boxes, edges) {
  const [a, b] = [boxes[edge.from], boxes[edge.to]];
  const into = edges.filter((e) => e.to === edge.to), out = edges.filter((e) => e.from === edge.from);
  const isNext = (e) => boxes[e.to].row - boxes[e.from].row < 2;
  const [sameInto, sameOut] = [into, out].map((all) => [...all].sort((e, f) => isNext(f) - isNext(e)));
  const x1 = a.x + (BOX.width * (sameOut.indexOf(edge) + 1)) / (out.length + 1), y1 = a.y + a.height;
  const x2 = b.x + (BOX.width * (sameInto.indexOf(edge) + 1)) / (into.length + 1), y2 = b.y - 2;
  const height = y2 - 12 - 15 * into.filter((e) => isNext(e) === isNext(edge)).indexOf(edge);
  const label = (x, anchor) => `<text x="${x}" y="${height}" text-anchor="${anchor}" class="tensor">${escaped(edge.label)}</text>`;
  if (isNext(edge)) {
    const bend = Math.min(30, (y2 - y1) / 2);
    return [`<path d="M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}" marker-end="url(#tip)"/>`, label(x2 - 7, "end")];
  }
  // Past the boxes in between, on their right.
  const between = boxes.filter((c) => c.row > a.row && c.row < b.row);
  const side = Math.max(...between.map((c) => c.x + BOX.width)) + 24 + 14 * into.indexOf(edge);
  const path = `M${x1} ${y1}C${x1} ${y1 + 40} ${side} ${y1 + 10} ${side} ${y1 + 50}V${y2 - 50}C${side} ${y2 - 10} ${x2} ${y2 - 44} ${x2} ${y2}`;
  return [`<path d="${path}" marker-end="url(#tip)"/>`, label(side + 7, "start")];
}

function boxSvg(box) {
  const lines = box.shownLines.map(([kind, line], n) =>
    `<text x="${box.x + BOX.pad}" y="${box.y + BOX.pad + 13 + (n + 1) * BOX.line}" class="${kind}">${escaped(line.length > 38 ? line.slice(0, 37) + "…" : line)}</text>`).join("");
  const inner =
    `<rect x="${box.x}" y="${box.y}" width="${BOX.width}" height="${box.height}" rx="8"/>` +
    `<text x="${box.x + BOX.pad}" y="${box.y + BOX.pad + 12}" class="title">${escaped(box.name)}</text>${lines}`;
  return box.kernel < 0 ? `<g class="box">${inner}</g>` : `<a class="box kernel" href="${kernelAddress(box.kernel)}">${inner}</a>`;
}

const kernelAddress = (target) => address({ part: target, stage: firstStage(PARTS[target]), tab: "overview", value: "", line: -1, place: -1 });
