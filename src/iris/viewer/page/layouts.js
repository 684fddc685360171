// Layouts, drawn: which lane and register holds each element of a tile.

const SIDE = 64; // rows and columns drawn

let layoutChosen = 0, registerChosen = -1;

/** Who holds each element: lane, register and simdgroup of the first that does. */
function holders(layout) {
  const held = new Map();
  const sizes = ["simdgroup", "lane", "register"].map((d) => 1 << layout[d].length);
  const image = (dim, n) => layout[dim].reduce((sum, column, bit) => (n >> bit) & 1 ? sum ^ column : sum, 0);
  for (let s = sizes[0] - 1; s >= 0; s--)
    for (let l = sizes[1] - 1; l >= 0; l--)
      for (let r = sizes[2] - 1; r >= 0; r--) {
        const element = image("simdgroup", s) ^ image("lane", l) ^ image("register", r);
        held.set(element, { s, l, r, copies: (held.get(element)?.copies ?? 0) + 1 });
      }
  return held;
}

function layoutsView() {
  const { layouts, staged } = part();
  if (!layouts.length) return `<p class="note">No tile of this kernel has a layout.</p>`;
  layoutChosen = Math.min(layoutChosen, layouts.length - 1);
  const layout = layouts[layoutChosen];
  const choices = layouts.map((l, n) =>
    `<button type="button" data-choose="${n}" aria-pressed="${n === layoutChosen}">layout ${layoutNumber(l.text)} <small>${l.shape.join("×")}, ${l.tiles.length} ${l.tiles.length === 1 ? "tile" : "tiles"}</small></button>`);
  const registers = 1 << layout.register.length;
  registerChosen = Math.min(registerChosen, registers - 1);
  const access = registerChosen < 0 ? "all registers" : `register ${registerChosen} of ${registers}: what simdgroup 0 touches with one instruction`;
  return (
    `<h2>Who holds which element</h2><div class="choices" role="group" aria-label="Layouts">${choices.join("")}</div>` +
    `<p class="prose">Tiles in it: ${layout.tiles.map((t) => `<span class="t-value" data-value="${t}">${t}</span>`).join(" ")}</p>` +
    `<p class="access"><label>Follow one register <input type="range" id="register" min="-1" max="${registers - 1}" value="${registerChosen}"></label> <output>${access}</output></p>` +
    `<div class="scroll">${layoutGrid(layout)}</div>` +
    `<p class="prose">A cell names lane and register, and its colour is the lane's${layout.simdgroup.length ? "; the bar on its left tells the simdgroup" : ""}.</p><p class="full"><code>${escaped(layout.text)}</code></p>` +
    staged.map(stagedGrid).join("")
  );
}

function layoutGrid(layout) {
  const held = holders(layout);
  const width = layout.shape.at(-1), height = layout.shape.slice(0, -1).reduce((a, b) => a * b, 1);
  const [columns, rows] = [Math.min(width, SIDE), Math.min(height, SIDE)];
  const small = columns > 32 ? " tiny" : columns > 16 ? " small" : "";
  let cells = `<i class="corner"></i>` + Array.from({ length: columns }, (_, c) => `<i class="head">${c}</i>`).join("");
  for (let r = 0; r < rows; r++) {
    cells += `<i class="head">${r}</i>`;
    for (let c = 0; c < columns; c++) {
      const h = held.get(r * width + c);
      if (!h) { cells += `<b class="empty"></b>`; continue; }
      const off = registerChosen >= 0 && (h.r !== registerChosen || h.s !== 0) ? " off" : "";
      const copies = h.copies > 1 ? `, and ${h.copies - 1} more` : "";
      cells += `<b class="lane${off} g${h.s % 4}" style="--lane:${h.l}" title="element (${r}, ${c}): lane ${h.l}, register ${h.r}, simdgroup ${h.s}${copies}">${h.l}<small>${h.r}</small></b>`;
    }
  }
  const cut = columns < width || rows < height ? `<p class="note">The first ${rows} rows and ${columns} columns.</p>` : "";
  return `<div class="grid${small}" style="--columns:${columns}" role="img" aria-label="${escaped(layout.text)}">${cells}</div>${cut}`;
}

/** A staged tile: the bank of threadgroup memory that each element lies in. */
function stagedGrid(tile) {
  const columns = tile.rows[0].length;
  const cells = tile.rows.map((row, r) => `<i class="head">${r}</i>` + row.map((bank, c) => `<b class="lane" style="--lane:${bank}" title="element (${r}, ${c}): bank ${bank}">${bank}</b>`).join("")).join("");
  const heads = Array.from({ length: columns }, (_, c) => `<i class="head">${c}</i>`).join("");
  const small = columns > 32 ? " tiny" : columns > 16 ? " small" : "";
  return (
    `<h3>Staged in threadgroup memory: ${tile.tiles.map((t) => `<span class="t-value" data-value="${t}">${t}</span>`).join(" ")}</h3>` +
    `<p class="prose">A cell names the bank, of ${tile.banks}. Lanes that touch one bank at a time wait for each other.</p>` +
    `<div class="scroll"><div class="grid${small}" style="--columns:${columns}" role="img" aria-label="Banks of ${escaped(tile.text)}"><i class="corner"></i>${heads}${cells}</div></div><p class="full"><code>${escaped(tile.text)}</code></p>`
  );
}
