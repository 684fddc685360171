// Along the program: registers that are alive, threadgroup memory in use, barriers.

const CHART = { width: 720, left: 64, right: 16, registers: 130, gap: 34, top: 18 };

function memoryView() {
  const p = part();
  return (
    `<h2>Along the program</h2>` +
    `<p class="prose">From left to right, the lines of the final Metal IR. Click to read one.</p>` +
    `<div class="scroll">${chartSvg(p)}</div>` +
    `<h3>Threadgroup memory</h3>${memoryTable(p)}` +
    `<h3>Barriers, and what each is for</h3>${barrierList(p)}`
  );
}

function chartSvg(p) {
  const lines = p.texts.at(-1).lines.length;
  const { width, left, right, top, gap } = CHART;
  const x = (line) => left + (line / lines) * (width - left - right);
  const most = Math.max(p.registers.most, 1);
  const high = (n) => top + CHART.registers * (1 - n / most);
  const area = p.registers.live.map((n, line) => `L${x(line)} ${high(n)}H${x(line + 1)}`).join("");
  const foot = top + CHART.registers;
  const roof = foot + gap, tall = p.memory.arrays.length ? 150 : 0;
  const scale = tall / Math.max(p.memory.bytes, 1);
  const arrays = p.memory.arrays.map((a, n) => {
    const y = roof + tall - (a.start + a.bytes) * scale;
    const [w, h] = [Math.max(x(a.last + 1) - x(a.first), 3), Math.max(a.bytes * scale - 1, 3)];
    return `<a href="${address({ tab: "ir", stage: p.stages.length - 1, line: a.first })}"><rect class="array c${n % 6}" x="${x(a.first)}" y="${y}" width="${w}" height="${h}" rx="3"><title>${escaped(a.name)}: ${escaped(a.type)}, ${bytes(a.bytes)} from byte ${a.start}, in use on lines ${a.first + 1} to ${a.last + 1}</title></rect>` +
      (h > 14 && w > 60 ? `<text x="${x(a.first) + 8}" y="${y + h / 2 + 4}" class="inside">${escaped(a.name)}</text>` : "") + `</a>`;
  });
  const bottom = roof + tall;
  const stops = p.barriers.map((b) =>
    `<a href="${address({ tab: "ir", stage: p.stages.length - 1, line: b.line })}"><path class="barrier" d="M${x(b.line)} ${top}V${bottom}"><title>${b.scope} barrier on line ${b.line + 1}</title></path></a>`);
  const ticks = Array.from({ length: 6 }, (_, n) => Math.round((n * (lines - 1)) / 5)).map((line) =>
    `<text class="axis" x="${x(line)}" y="${bottom + 18}" text-anchor="middle">${line + 1}</text>`);
  return (
    `<svg class="chart" viewBox="0 0 ${width} ${bottom + 26}" role="img" aria-label="Registers alive, at most ${most}; threadgroup memory, ${p.memory.bytes} bytes; ${p.barriers.length} barriers">` +
    `<text class="axis" x="${left - 8}" y="${top + 5}" text-anchor="end">${most}</text><text class="axis" x="${left - 8}" y="${foot}" text-anchor="end">0</text>` +
    `<text class="label" x="${left + 6}" y="${top - 5}">registers of 32 bits alive in a thread</text>` +
    `<path class="live" d="M${left} ${foot}${area}V${foot}z"/>` +
    `<path class="base" d="M${left} ${foot}H${width - right}"/>` +
    (tall ? `<text class="axis" x="${left - 8}" y="${roof + 5}" text-anchor="end">${bytes(p.memory.bytes)}</text><text class="axis" x="${left - 8}" y="${bottom}" text-anchor="end">0</text><text class="label" x="${left + 6}" y="${roof - 7}">threadgroup memory in use</text><path class="base" d="M${left} ${bottom}H${width - right}"/>` : "") +
    arrays.join("") + stops.join("") + ticks.join("") + `</svg>`
  );
}

/** The line of the program at a place in the chart. */
function chartLine(event) {
  const { width, left, right } = CHART, svg = event.target.ownerSVGElement;
  const { x } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return Math.floor(((x - left) / (width - left - right)) * part().texts.at(-1).lines.length);
}

function memoryTable(p) {
  if (!p.memory.arrays.length) return `<p class="note">This kernel uses none.</p>`;
  const rows = p.memory.arrays.map((a) =>
    `<tr><th scope="row"><span class="t-value" data-value="${a.name}">${escaped(a.name)}</span></th><td class="left"><code>${escaped(a.type)}</code></td><td>${a.start}</td><td>${number(a.bytes)}</td><td>${lineLink(a.first)} to ${lineLink(a.last)}</td></tr>`);
  const counted = p.stages.at(-1).counters;
  const [spent, fewest] = [counted["cycles of shared memory"], Math.ceil(counted["bytes shared"] / p.memory.cycle)];
  const conflicts = spent > fewest
    ? `which is ${(spent / fewest).toPrecision(3)} times as many as without conflicts of banks`
    : "as few as can be: no banks conflict";
  const cycles = `<p class="prose">By the cost model the accesses of a program take ${number(spent)} cycles, ${conflicts}.</p>`;
  return `${cycles}<div class="scroll"><table><thead><tr><th>array</th><th class="left">type</th><th>first byte</th><th>bytes</th><th>in use on lines</th></tr></thead><tbody>${rows.join("")}</tbody></table></div>`;
}

const lineLink = (line) => `<a href="${address({ tab: "ir", stage: part().stages.length - 1, line, value: "" })}">${line + 1}</a>`;

function barrierList(p) {
  if (!p.barriers.length) return `<p class="note">There are none.</p>`;
  const shown = (line) => `${lineLink(line)} <code>${lineHtml(p.texts.at(-1).lines[line].trim())}</code>`;
  const items = p.barriers.map((b) => {
    const pairs = b.pairs.map(([one, other]) => `<div class="orders"><div><i>after</i> ${shown(one)}</div><div><i>before</i> ${shown(other)}</div></div>`);
    return `<li>Line ${lineLink(b.line)}, of ${escaped(b.scope)} scope. ${pairs.length ? `Without it these would race:${pairs.join("")}` : "It was in the program; no race of this kernel needs it."}</li>`;
  });
  return `<ol class="barriers">${items.join("")}</ol>`;
}
