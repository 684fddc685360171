// Layouts, drawn: which lane and register holds each element of a tile.

const SIDE = 64; // rows and columns drawn

let layoutChosen = 0, registerChosen = -1;

/** Who holds each element: lane, register and simdgroup of the first that does, and how many do. */
function holders(layout) {
  const held = new Map();
  const size = (dim) => 1 << layout[dim].length;
  const image = (dim, n) => layout[dim].reduce((sum, column, bit) => ((n >> bit) & 1 ? sum ^ column : sum), 0);
  for (let s = size("simdgroup") - 1; s >= 0; s--) {
    for (let l = size("lane") - 1; l >= 0; l--) {
      for (let r = size("register") - 1; r >= 0; r--) {
        const element = image("simdgroup", s) ^ image("lane", l) ^ image("register", r);
        held.set(element, { s, l, r, copies: (held.get(element)?.copies ?? 0) + 1 });
      }
    }
  }
  return held;
}

function layoutsView() {
  const { layouts, staged } = part();
  layoutChosen = Math.min(layoutChosen, layouts.length - 1);
  const layout = layouts[layoutChosen], registers = 1 << layout.register.length;
  registerChosen = Math.min(registerChosen, registers - 1);
  const choices = layouts.map((l, n) => html`
    <button type="button" data-choose="${n}" aria-pressed="${String(n === layoutChosen)}">
      layout ${layoutNumber(l.text)}
      <small> ${l.shape.join("×")}, ${counted(l.tiles.length, "tile")}</small>
    </button>`);
  const access = registerChosen < 0
    ? "all registers"
    : `register ${registerChosen} of ${registers}: what simdgroup 0 touches with one instruction`;
  const bars = layout.simdgroup.length ? "; the bar on its left tells the simdgroup" : "";
  return html`
    <h2>Who holds which element</h2>
    <div class="choices" role="group" aria-label="Layouts">${choices}</div>
    <p class="prose">Tiles in it: ${layout.tiles.map(valueHtml).join(" ")}</p>
    <p class="access">
      <label>Follow one register
        <input type="range" id="register" min="-1" max="${registers - 1}" value="${registerChosen}">
      </label> <output>${access}</output>
    </p>
    ${layoutGrid(layout)}
    <p class="prose">A cell names lane and register, and its colour is the lane's${bars}.</p>
    <p class="full"><code>${escaped(layout.text)}</code></p>
    ${staged.map(stagedGrid)}`;
}

const counted = (n, what) => `${n} ${n === 1 ? what : `${what}s`}`;

/** A table of elements, whose rows are lists of cells. */
function gridHtml(rows, label) {
  const columns = rows[0].length;
  const size = columns > 32 ? "tiny" : columns > 16 ? "small" : "";
  const heads = rows[0].map((_, c) => `<i class="head">${c}</i>`);
  const body = rows.map((cells, r) => html`<i class="head">${r}</i>${cells}`);
  return html`
    <div class="scroll">
      <div class="grid ${size}" style="--columns:${columns}" role="img" aria-label="${escaped(label)}">
        <i class="corner"></i>${heads}${body}
      </div>
    </div>`;
}

function layoutGrid(layout) {
  const held = holders(layout), width = layout.shape.at(-1);
  const height = layout.shape.slice(0, -1).reduce((a, b) => a * b, 1);
  const [columns, rows] = [Math.min(width, SIDE), Math.min(height, SIDE)];
  const cell = (r, c) => {
    const h = held.get(r * width + c);
    if (!h) return `<b class="empty"></b>`;
    const off = registerChosen >= 0 && (h.r !== registerChosen || h.s !== 0) ? "off" : "";
    const copies = h.copies > 1 ? `, and ${h.copies - 1} more` : "";
    const who = `element (${r}, ${c}): lane ${h.l}, register ${h.r}, simdgroup ${h.s}${copies}`;
    return html`
      <b class="lane ${off} g${h.s % 4}" style="--lane:${h.l}" title="${who}">${h.l}<small>${h.r}</small></b>`;
  };
  const cells = Array.from({ length: rows }, (_, r) => Array.from({ length: columns }, (_, c) => cell(r, c)));
  const isCut = columns < width || rows < height;
  return html`
    ${gridHtml(cells, layout.text)}
    ${isCut && `<p class="note">The first ${rows} rows and ${columns} columns.</p>`}`;
}

/** A staged tile: the bank of threadgroup memory that each element lies in. */
function stagedGrid(tile) {
  const cell = (bank, r, c) =>
    `<b class="lane" style="--lane:${bank}" title="element (${r}, ${c}): bank ${bank}">${bank}</b>`;
  const cells = tile.rows.map((row, r) => row.map((bank, c) => cell(bank, r, c)));
  return html`
    <h3>Staged in threadgroup memory: ${tile.tiles.map(valueHtml).join(" ")}</h3>
    <p class="prose">
      A cell names the bank, of ${tile.banks}. Lanes that touch one bank at a time wait for each other.
    </p>
    ${gridHtml(cells, `Banks of ${tile.text}`)}
    <p class="full"><code>${escaped(tile.text)}</code></p>`;
}
