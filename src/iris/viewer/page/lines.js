// Lines of IR and of Metal, in colour, with values that can be chosen.

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (s) => String(s).replace(/[&<>"]/g, (c) => ENTITIES[c]);

/**
 * HTML from a template. Its line breaks and indents are only for who reads the program. Lists are
 * joined, and what is false or missing leaves nothing.
 */
function html(strings, ...values) {
  const raw = strings.map((s) => s.replace(/\n\s*/g, ""));
  return String.raw({ raw }, ...values.map((v) => (Array.isArray(v) ? v.join("") : v || v === 0 ? v : "")));
}

const TOKEN = new RegExp(
  [
    /(?<layout>linear<[^>]*>)/,
    /(?<value>%\w+)/,
    /(?<symbol>@\w+)/,
    /(?<string>"(?:[^"\\]|\\.)*")/,
    /(?<comment>\/\/.*)/,
    /(?<word>[A-Za-z_][\w.]*)/,
    /(?<number>-?\d[\w.+]*)/,
    /(?<space>\s+)/,
    /(?<mark>.)/,
  ].map((part) => part.source).join("|"),
  "g",
);

const oneOf = (words) => new RegExp(`^(${words.trim().replace(/\s+/g, "|")})$`);
const TYPES = oneOf("tile tensor ptr regs threadgroup staged [iu](8|16|32|64) f16 f32 bf16 bool");
const METAL_TYPES = oneOf(`
  u?(int|char|short|long)[234]? (float|half|bool)[24]? bfloat simdgroup_\\w+8x8 void auto struct
  device constant const thread threadgroup kernel METAL_FUNC alignas
`);
const CONTROL = oneOf(`
  for while if else yield return func graph\\.kernel graph\\.launch metal\\.foreach
  break continue using namespace
`);

/** The tokens of a line: its text and what it is. In Metal, an op is what is called. */
function tokens(line) {
  const isIr = /%\w|^\s*[a-z]+\.[a-z_]+/.test(line);
  const found = [];
  let afterEquals = !line.includes(" = ");
  for (const match of line.matchAll(TOKEN)) {
    const [kind, word] = Object.entries(match.groups).find(([, w]) => w !== undefined);
    let is = kind;
    if (kind === "word") {
      const isOp = isIr ? afterEquals : line[match.index + word.length] === "(";
      if ((isIr ? TYPES : METAL_TYPES).test(word)) is = "type";
      else if (CONTROL.test(word)) is = "control";
      else if (isOp) [is, afterEquals] = ["op", false];
    }
    if (kind === "mark" && word === "=") afterEquals = line[match.index - 1] === " ";
    found.push({ is, word });
  }
  return found;
}

/** The number of a layout, by which a line names it for short. */
function layoutNumber(word) {
  const listed = part().layouts ?? [];
  const numbers = (part().layoutNumbers ??= new Map(listed.map((l, n) => [l.text, n + 1])));
  if (!numbers.has(word)) numbers.set(word, numbers.size + 1);
  return numbers.get(word);
}

function drawn({ is, word }, changed) {
  if (is === "space" || (is === "mark" && !changed)) return escaped(word);
  const kind = `class="t-${is}${changed ? " new" : ""}"`;
  if (is === "layout") {
    const name = `layout ${layoutNumber(word)}`;
    return `<span ${kind} data-layout="${escaped(word)}" title="${escaped(word)}">${name}</span>`;
  }
  return `<span ${kind}${is === "value" ? ` data-value="${word}"` : ""}>${escaped(word)}</span>`;
}

/** A line as HTML; `changed` says of each token whether a pass changed it. */
function lineHtml(line, changed) {
  return tokens(line).map((token, n) => drawn(token, changed?.[n])).join("");
}

/** A numbered line of a text; `attributes` are those of its element. */
function numbered(t, number, attributes, changed) {
  const at = t.at[number];
  return html`
    <div ${attributes} data-line="${number}"${at >= 0 && ` data-place="${at}"`}>
      <a class="n" href="#" tabindex="-1" aria-label="line ${number + 1}">${number + 1}</a>
      <code>${lineHtml(t.lines[number], changed)}</code>
    </div>`;
}

function listed(t) {
  const lines = t.lines.map((_, n) => numbered(t, n, 'class="line" role="listitem"'));
  return html`<div class="code" role="list">${lines}</div>`;
}

/** A value by its name alone, which can be chosen. */
const valueHtml = (name) => `<span class="t-value" data-value="${name}">${name}</span>`;
