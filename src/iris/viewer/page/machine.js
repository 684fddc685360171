// Along the program: registers that are alive, threadgroup memory in use, barriers.

const CHART = { width: 720, left: 64, right: 16, registers: 130, memory: 150, gap: 34, top: 18 };

function memoryView() {
  const p = part();
  return html`
    <h2>Along the program</h2>
    <p class="prose">From left to right, the lines of the final Metal IR. Click to read one.</p>
    <div class="scroll">${chartSvg(p)}</div>
    <h3>Threadgroup memory</h3>${memoryTable(p)}
    <h3>Barriers, and what each is for</h3>${barrierList(p)}`;
}

/** Where a link leads to: a line of the final Metal IR. */
const finalLine = (line) => address({ tab: "ir", stage: part().stages.length - 1, line, value: "", place: -1 });
const lineLink = (line) => `<a href="${finalLine(line)}">${line + 1}</a>`;

function chartSvg(p) {
  const lines = p.texts.at(-1).lines.length;
  const { width, left, right, top, gap } = CHART;
  const x = (line) => left + (line / lines) * (width - left - right);
  const most = Math.max(p.registers.most, 1);
  const foot = top + CHART.registers, roof = foot + gap;
  const bottom = roof + (p.memory.arrays.length ? CHART.memory : 0);
  const high = (n) => foot - (n / most) * CHART.registers;
  const area = p.registers.live.map((n, line) => `L${x(line)} ${high(n)}H${x(line + 1)}`).join("");
  const barriers = p.barriers.map((b) => html`
    <a href="${finalLine(b.line)}" aria-label="barrier on line ${b.line + 1}">
      <path class="barrier" d="M${x(b.line)} ${top}V${bottom}">
        <title>${b.scope} barrier on line ${b.line + 1}</title>
      </path>
    </a>`);
  const marks = Array.from({ length: 6 }, (_, n) => Math.round((n * (lines - 1)) / 5));
  const summary =
    `Registers alive, at most ${most}; threadgroup memory, ${p.memory.bytes} bytes; ` +
    `${p.barriers.length} barriers`;
  return html`
    <svg class="chart" viewBox="0 0 ${width} ${bottom + 26}" role="group" aria-label="${summary}">
      ${axis(top, foot, most, "registers of 32 bits alive in a thread")}
      <path class="live" d="M${left} ${foot}${area}V${foot}z"/>
      ${bottom > roof && axis(roof, bottom, bytes(p.memory.bytes), "threadgroup memory in use")}
      ${p.memory.arrays.map((a, n) => arraySvg(a, n, x, bottom, (bottom - roof) / p.memory.bytes))}
      ${barriers}
      ${marks.map((line) => svgText(x(line), bottom + 18, "axis", "middle", line + 1))}
    </svg>`;
}

const svgText = (x, y, kind, anchor, words) =>
  `<text x="${x}" y="${y}" class="${kind}" text-anchor="${anchor}">${escaped(words)}</text>`;

/** A vertical axis, from a most at its top to 0, and the name of what it measures. */
function axis(roof, foot, most, name) {
  const { left, right, width } = CHART;
  return html`
    ${svgText(left - 8, roof + 5, "axis", "end", most)}
    ${svgText(left - 8, foot, "axis", "end", 0)}
    ${svgText(left + 6, roof - 6, "label", "start", name)}
    <path class="base" d="M${left} ${foot}H${width - right}"/>`;
}

function arraySvg(a, n, x, bottom, scale) {
  const [w, h] = [Math.max(x(a.last + 1) - x(a.first), 3), Math.max(a.bytes * scale - 1, 3)];
  const y = bottom - a.start * scale - h;
  const what =
    `${a.name}: ${a.type}, ${bytes(a.bytes)} from byte ${a.start}, ` +
    `in use on lines ${a.first + 1} to ${a.last + 1}`;
  return html`
    <a href="${finalLine(a.first)}" aria-label="${escaped(what)}">
      <rect class="array c${n % 6}" x="${x(a.first)}" y="${y}" width="${w}" height="${h}" rx="3">
        <title>${escaped(what)}</title>
      </rect>
      ${h > 14 && w > 60 && svgText(x(a.first) + 8, y + h / 2 + 4, "inside", "start", a.name)}
    </a>`;
}

/** The line of the program at a place in the chart. */
function chartLine(event) {
  const { width, left, right } = CHART, svg = event.target.ownerSVGElement;
  const { x } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return Math.floor(((x - left) / (width - left - right)) * part().texts.at(-1).lines.length);
}

function memoryTable(p) {
  if (!p.memory.arrays.length) return `<p class="note">This kernel uses none.</p>`;
  const rows = p.memory.arrays.map((a) => html`
    <tr>
      <th scope="row">${valueHtml(a.name)}</th>
      <td class="left"><code>${escaped(a.type)}</code></td>
      <td>${a.start}</td><td>${number(a.bytes)}</td>
      <td>${lineLink(a.first)} to ${lineLink(a.last)}</td>
    </tr>`);
  const { "cycles of shared memory": spent, "bytes shared": moved } = p.stages.at(-1).counters;
  const fewest = Math.ceil(moved / p.memory.cycle);
  const conflicts = spent > fewest
    ? `${(spent / fewest).toPrecision(3)} times as many as without conflicts of banks`
    : "as few as can be: no banks conflict";
  return html`
    <p class="prose">By the cost model the accesses of a program take ${number(spent)} cycles, ${conflicts}.</p>
    <div class="scroll"><table>
      <thead><tr>
        <th>array</th><th class="left">type</th><th>first byte</th><th>bytes</th><th>in use on lines</th>
      </tr></thead>
      <tbody>${rows}</tbody>
    </table></div>`;
}

function barrierList(p) {
  if (!p.barriers.length) return `<p class="note">There are none.</p>`;
  const lines = p.texts.at(-1).lines;
  const access = (when, line) =>
    html`<div><i>${when}</i> ${lineLink(line)} <code>${lineHtml(lines[line].trim())}</code></div>`;
  const items = p.barriers.map((b) => {
    const pairs = b.pairs.map(([one, other]) => html`
      <div class="orders">${access("after", one)}${access("before", other)}</div>`);
    const why = pairs.length
      ? html`Without it these would race:${pairs}`
      : "It was in the program; no race of this kernel needs it.";
    return html`<li>Line ${lineLink(b.line)}, of ${escaped(b.scope)} scope. ${why}</li>`;
  });
  return html`<ol class="barriers">${items}</ol>`;
}
