// A recorded run of the first text, op by op.

/** The last step: after all ops. */
const lastStep = () => part().run.lines.length;

function runView() {
  const r = part().run;
  return html`
    <header class="run">
      <h2>Run <small>${escaped(r.where)}</small></h2>
      <div class="stepper">
        <button type="button" data-by="-1" aria-label="step back">◀</button>
        <input type="range" id="step" min="0" max="${lastStep()}" aria-label="step">
        <button type="button" data-by="1" aria-label="step">▶</button>
        <output id="at-step"></output>
      </div>
      <p id="step-says" class="note"></p>
    </header>
    ${listed(part().texts[0])}`;
}

/** What a value is at the step that is shown, and since which one; nothing before it has any. */
function valueNow(name) {
  const all = part().run.values[name] ?? [];
  let low = 0, high = all.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle][0] <= here.step) low = middle + 1;
    else high = middle;
  }
  return all[low - 1];
}

/** Show the step: which op is next, and what each value is now, on the line that defines it. */
function markRun() {
  const r = part().run, { step } = here, isOver = step === lastStep();
  $("step").value = step;
  $("at-step").textContent = `${step} of ${lastStep()}`;
  const said = !isOver ? "" : r.error ?? (r.leftOut ? `${counted(r.leftOut, "op")} more ran, and are not kept.` : "The program has ended.");
  $("step-says").textContent = said;
  const next = isOver ? (r.error ? r.lines.at(-1) : -1) : r.lines[step];
  const names = new Map();
  for (const [name, { defined }] of namesOf(part().texts[0])) {
    if (r.values[name]) names.set(defined, [...(names.get(defined) ?? []), name]);
  }
  for (const line of $("view").querySelectorAll(".line")) {
    const number = Number(line.dataset.line);
    line.classList.toggle("next", number === next);
    line.classList.toggle("failed", number === next && isOver);
    const known = (names.get(number) ?? []).map((name) => [name, valueNow(name)]).filter(([, now]) => now);
    let values = line.querySelector(".values");
    if (!values && known.length) {
      values = document.createElement("span");
      values.className = "values";
      line.append(values);
    }
    if (values) values.textContent = known.map(([name, now]) => `${name} = ${now[1]}`).join("   ");
    values?.classList.toggle("just", known.some(([, now]) => now[0] === step));
  }
  bring($("view").querySelector(".next"));
  const text = next < 0 ? said : `line ${next + 1}: ${part().texts[0].lines[next].trim()}`;
  $("step").setAttribute("aria-valuetext", `${step}, ${text}`);
}

function toStep(step) {
  if (step !== undefined && step >= 0 && step <= lastStep()) go({ step, tab: "run" }, "replaceState");
}

/** The next step at which the chosen value gets a value, or the line that was clicked is next. */
const nextChange = () => part().run.values[here.value]?.find(([step]) => step > here.step)?.[0];
function nextAtLine() {
  const at = part().run.lines.indexOf(here.line, here.step + 1);
  return at < 0 ? undefined : at;
}

const inRun = (move) => () => part().run && move();
const RUN_KEYS = {
  ArrowRight: ["next op of the run", inRun(() => toStep(here.step + 1))],
  ArrowLeft: ["the one before", inRun(() => toStep(here.step - 1))],
  c: ["next change of the chosen value", inRun(() => toStep(nextChange()))],
  b: ["next time at the line whose number was clicked", inRun(() => toStep(nextAtLine()))],
};

/** What the chosen value is at the step that is shown. */
function valueNowHtml() {
  const now = here.tab === "run" && valueNow(here.value);
  return now && html`<h3>Since step ${now[0]}</h3><p class="now"><code>${escaped(now[1])}</code></p>`;
}
