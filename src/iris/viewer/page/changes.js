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
      const longer = Math.max(best[i + 1][j], best[i][j + 1]);
      best[i][j] = called[i] === other[j].word ? best[i + 1][j + 1] + 1 : longer;
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
  const calledNow = ({ a }) => {
    const name = definedOn(old.lines[a]);
    return name && (step.names[name] ?? name);
  };
  const gone = new Set(found.filter((r) => r.b < 0).map(calledNow));
  const fresh = new Set(found.filter((r) => r.a < 0).map((r) => definedOn(now.lines[r.b])));
  for (const r of found) {
    const name = r.b < 0 ? calledNow(r) : r.a < 0 ? definedOn(now.lines[r.b]) : undefined;
    r.moved = Boolean(name) && gone.has(name) && fresh.has(name);
  }
  return found;
}

function cell(t, number, side, kind, words) {
  if (number < 0) return `<div class="line none ${side}"></div>`;
  return numbered(t, number, `class="line ${side} ${kind}" data-side="${side}"`, words);
}

function diffRow({ a, b, same, moved }, step, old, now) {
  if (same) return html`<div class="pair same">${cell(old, a, "old", "")}${cell(now, b, "now", "")}</div>`;
  const isBoth = a >= 0 && b >= 0;
  const [gone, added] = isBoth ? changedWords(old.lines[a], now.lines[b], step.names) : [];
  const how = moved ? "moved" : a < 0 ? "added" : b < 0 ? "removed" : "modified";
  return html`
    <div class="pair ${how}" role="group" aria-label="${how}">
      ${cell(old, a, "old", "gone", gone)}${cell(now, b, "now", "fresh", added)}
    </div>`;
}

/** Rows, with those far from any change folded away. */
function folded(found, draw) {
  const near = found.map(() => false);
  found.forEach((r, n) => {
    if (!r.same) near.fill(true, Math.max(0, n - AROUND), n + AROUND + 1);
  });
  const parts = [];
  for (let n = 0; n < found.length; ) {
    let end = n;
    while (end < found.length && near[end] === near[n]) end++;
    const rows = found.slice(n, end).map(draw);
    const isShort = near[n] || end - n < 3;
    const summary = `<summary>${end - n} lines stay as they are</summary>`;
    parts.push(isShort ? rows.join("") : html`<details class="fold">${summary}${rows}</details>`);
    n = end;
  }
  return parts;
}

function changesView() {
  const s = stage();
  const intro = html`
    <header class="pass">
      <h2>${escaped(s.name)} <small>${s.level} level</small></h2>
      ${s.about && `<p>${inline(s.about)}</p>`}
      ${countsHtml(s)}${firingsHtml(s)}
    </header>`;
  if (here.stage === 0 || !s.changed) {
    const what = here.stage ? "This pass changed nothing here." : "The program as it was traced, before any pass.";
    return html`${intro}<p class="note">${what}</p>${listed(text())}`;
  }
  const [old, now, step] = [text(s.text - 1), text(), part().steps[s.text - 1]];
  const rows = folded(diffRows(step, old, now), (r) => diffRow(r, step, old, now));
  const heads = `<div class="pair heads"><div>before</div><div>after ${escaped(s.name)}</div></div>`;
  return html`${intro}<div class="code diff">${heads}${rows}</div>`;
}

const inline = (words) => escaped(words).replace(/`([^`]*)`/g, "<code>$1</code>");

/** The rules that fired, and what else a pass counted. */
function countsHtml(s) {
  const counts = Object.entries(s.counts).map(([what, n]) => [n, what.replaceAll("_", " ")]);
  if (s.size) counts.unshift([s.size, s.size === 1 ? "line changed" : "lines changed"]);
  const chips = counts.map(([n, what]) => `<li><b>${n}</b> ${escaped(what)}</li>`);
  return html`<ul class="chips">${chips}<li>${milliseconds(s.ms)}</li></ul>`;
}

/** What rules did: the op that each looked at, and what took its place. */
function firingsHtml(s) {
  if (!s.firings.length) return "";
  // Their values have numbers of their own, and cannot be chosen.
  const code = (kind, line) =>
    `<code class="${kind}">${lineHtml(line).replaceAll(" data-value=", " data-name=")}</code>`;
  const items = s.firings.map(([rule, old, now]) => html`
    <li>
      <b>${escaped(rule.replaceAll("_", " "))}</b>
      ${code("gone", old)}
      ${now.length ? now.map((line) => code("fresh", line)) : `<code class="none">removed</code>`}
    </li>`);
  return html`
    <details class="firings"><summary>Before and after each rule</summary><ul>${items}</ul></details>`;
}

function milliseconds(ms) {
  if (ms < 0.1) return `${Math.round(ms * 1000)} µs`;
  return `${ms < 100 ? ms.toFixed(1) : Math.round(ms)} ms`;
}
