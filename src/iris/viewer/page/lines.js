// Lines of IR and of Metal, in colour, with values that can be chosen.

const escaped = (s) => String(s).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

const TOKEN =
  /(?<layout>linear<[^>]*>)|(?<value>%\w+)|(?<symbol>@\w+)|(?<string>"(?:[^"\\]|\\.)*")|(?<comment>\/\/.*)|(?<word>[A-Za-z_][\w.]*)|(?<number>-?\d[\w.+]*)|(?<space>\s+)|(?<mark>.)/g;

const TYPES = /^(tile|tensor|ptr|regs|threadgroup|staged|[iu](8|16|32|64)|f16|f32|bf16|bool)$/;
const METAL_TYPES = /^(u?(int|char|short|long)[234]?|(float|half|bool)[24]?|bfloat|simdgroup_\w+8x8|device|constant|const|thread|threadgroup|kernel|void|auto|struct|METAL_FUNC|alignas)$/;
const CONTROL = /^(for|while|if|else|yield|return|func|graph\.kernel|graph\.launch|metal\.foreach|break|continue|using|namespace)$/;

/** The tokens of a line: its text and what it is. In Metal, an op is what is called. */
function tokens(line) {
  const isIr = /%\w|^\s*[a-z]+\.[a-z_]+/.test(line);
  const found = [];
  let afterEquals = !line.includes(" = ");
  for (const match of line.matchAll(TOKEN)) {
    const [kind, word] = Object.entries(match.groups).find(([, w]) => w !== undefined);
    let is = kind;
    if (kind === "word") {
      if ((isIr ? TYPES : METAL_TYPES).test(word)) is = "type";
      else if (CONTROL.test(word)) is = "control";
      else if (isIr ? afterEquals : line[match.index + word.length] === "(") [is, afterEquals] = ["op", false];
    }
    if (kind === "mark" && word === "=") afterEquals = line[match.index - 1] === " ";
    found.push({ is, word });
  }
  return found;
}

/** The number of a layout, by which a line names it for short. */
function layoutNumber(word) {
  const numbers = (part().layoutNumbers ??= new Map((part().layouts ?? []).map((l, n) => [l.text, n + 1])));
  if (!numbers.has(word)) numbers.set(word, numbers.size + 1);
  return numbers.get(word);
}

function drawn({ is, word }, changed) {
  const mark = changed ? " new" : "";
  if (is === "space" || (is === "mark" && !changed)) return escaped(word);
  if (is === "layout") {
    const number = layoutNumber(word);
    return `<span class="t-layout${mark}" data-layout="${escaped(word)}" title="${escaped(word)}">layout ${number}</span>`;
  }
  const chosen = is === "value" ? ` data-value="${word}"` : "";
  return `<span class="t-${is}${mark}"${chosen}>${escaped(word)}</span>`;
}

/** A line as HTML; `changed` says of each token whether a pass changed it. */
function lineHtml(line, changed) {
  return tokens(line).map((token, n) => drawn(token, changed?.[n])).join("");
}

/** A numbered line of a text. */
function row(t, number) {
  const at = t.at[number];
  return (
    `<div class="line" role="listitem" data-line="${number}"${at >= 0 ? ` data-place="${at}"` : ""}>` +
    `<a class="n" href="#" tabindex="-1" aria-label="line ${number + 1}">${number + 1}</a>` +
    `<code>${lineHtml(t.lines[number])}</code></div>`
  );
}

const listed = (t) => `<div class="code" role="list">${t.lines.map((_, n) => row(t, n)).join("")}</div>`;
