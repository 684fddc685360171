// What a pass changed: the text before beside the text after, by words.

const AROUND = 3; // lines that did not change, shown around those that did

/** Which words of two lines are in one line only, each value being what it is called after. */
function changedWords(old, now, names) {
  const one = tokens(old), other = tokens(now);
  const called = one.map((t) => (t.is === "value" ? names[t.word] ?? t.word : t.word));
  // The longest common part, by the usual table.
  const best = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      best[i][j] = called[i] === other[j].word ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  }
  const gone = Array(one.length).fill(true), added = Array(other.length).fill(true);
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    if (called[i] === other[j].word) gone[i++] = added[j++] = false;
    else if (best[i + 1][j] >= best[i][j + 1]) i++;
    else j++;
  }
  return [gone, added];
}

const sameLine = (old, now, names) => old.replace(/%\w+/g, (v) => names[v] ?? v) === now;

/** The rows of a step, each with the lines that it shows and whether they are the same. */
function diffRows(step, old, now) {
  const found = [];
  for (const [i, j, count] of step.rows) {
    for (let n = 0; n < count; n++) {
      const [a, b] = [i < 0 ? -1 : i + n, j < 0 ? -1 : j + n];
      const same = a >= 0 && b >= 0 && sameLine(old.lines[a], now.lines[b], step.names);
      found.push({ a, b, same });
    }
  }
  return withMoves(found, step, old, now);
}

const definedOn = (line) => line.match(/%\w+(?=: )/)?.[0];

/** The rows, where a line that is gone from one place and new in another counts as moved. */
function withMoves(found, step, old, now) {
  const calledNow = ({ a }) => { const name = definedOn(old.lines[a]); return name && (step.names[name] ?? name); };
  const gone = new Set(found.filter((r) => r.b < 0).map(calledNow));
  const fresh = new Set(found.filter((r) => r.a < 0).map((r) => definedOn(now.lines[r.b])));
  for (const r of found) {
    const name = r.b < 0 ? calledNow(r) : r.a < 0 ? definedOn(now.lines[r.b]) : undefined;
    r.moved = Boolean(name) && gone.has(name) && fresh.has(name);
  }
  return found;
}

function cell(t, number, kind, words) {
  if (number < 0) return `<div class="line none ${kind}"></div>`;
  const at = t.at[number];
  return (
    `<div class="line ${kind}" data-line="${number}" data-side="${kind.split(" ")[0]}"${at >= 0 ? ` data-place="${at}"` : ""}>` +
    `<a class="n" href="#" tabindex="-1" aria-label="line ${number + 1}">${number + 1}</a>` +
    `<code>${lineHtml(t.lines[number], words)}</code></div>`
  );
}

function diffRow({ a, b, same, moved }, step, old, now) {
  if (same) return `<div class="pair same">${cell(old, a, "old")}${cell(now, b, "now")}</div>`;
  const [gone, added] = a >= 0 && b >= 0 ? changedWords(old.lines[a], now.lines[b], step.names) : [];
  const how = moved ? "moved" : a < 0 ? "added" : b < 0 ? "removed" : "modified";
  return (
    `<div class="pair ${how}" role="group" aria-label="${how}">` +
    `${cell(old, a, "old" + (a < 0 ? "" : " gone"), gone)}${cell(now, b, "now" + (b < 0 ? "" : " fresh"), added)}</div>`
  );
}

/** Rows, with those far from any change folded away. */
function folded(found, draw) {
  const near = found.map(() => false);
  found.forEach((r, n) => {
    if (!r.same) for (let k = Math.max(0, n - AROUND); k <= Math.min(found.length - 1, n + AROUND); k++) near[k] = true;
  });
  let html = "";
  for (let n = 0; n < found.length; ) {
    let end = n;
    while (end < found.length && near[end] === near[n]) end++;
    const rows = found.slice(n, end).map(draw).join("");
    html += near[n] || end - n < 3 ? rows : `<details class="fold"><summary>${end - n} lines stay as they are</summary>${rows}</details>`;
    n = end;
  }
  return html;
}

function changesView() {
  const s = stage();
  const intro = `<header class="pass"><h2>${escaped(s.name)} <small>${s.level} level</small></h2>${
    s.about ? `<p>${inline(s.about)}</p>` : ""
  }${countsHtml(s)}${firingsHtml(s)}</header>`;
  if (here.stage === 0) return intro + `<p class="note">This is what was traced from Python, before any pass.</p>` + listed(text());
  if (!s.changed) return intro + `<p class="note">This pass changed nothing here.</p>` + listed(text());
  const [old, now, step] = [text(s.text - 1), text(), part().steps[s.text - 1]];
  const draw = (r) => diffRow(r, step, old, now);
  const heads = `<div class="pair heads"><div>before</div><div>after ${escaped(s.name)}</div></div>`;
  return intro + `<div class="code diff">${heads}${folded(diffRows(step, old, now), draw)}</div>`;
}

const inline = (words) => escaped(words).replace(/`([^`]*)`/g, "<code>$1</code>");

/** The rules that fired, and what else a pass counted. */
function countsHtml(s) {
  const parts = Object.entries(s.counts).map(([what, n]) => `<li><b>${n}</b> ${escaped(what.replaceAll("_", " "))}</li>`);
  if (s.size) parts.unshift(`<li><b>${s.size}</b> ${s.size === 1 ? "line" : "lines"} changed</li>`);
  parts.push(`<li>${milliseconds(s.ms)}</li>`);
  return `<ul class="chips">${parts.join("")}</ul>`;
}

/** What rules did: the op that each looked at, and what took its place. */
function firingsHtml(s) {
  if (!s.firings.length) return "";
  // Their values have numbers of their own, and cannot be chosen.
  const plain = (line) => lineHtml(line).replaceAll(" data-value=", " data-name=");
  const items = s.firings.map(([rule, old, now]) =>
    `<li><b>${escaped(rule.replaceAll("_", " "))}</b><code class="gone">${plain(old)}</code>${
      now.map((line) => `<code class="fresh">${plain(line)}</code>`).join("") || `<code class="none">removed</code>`}</li>`);
  return `<details class="firings"><summary>Before and after each rule</summary><ul>${items.join("")}</ul></details>`;
}

const milliseconds = (ms) => (ms >= 100 ? `${Math.round(ms)} ms` : ms >= 0.1 ? `${ms.toFixed(1)} ms` : `${Math.round(ms * 1000)} µs`);
