// Puts the parts together: charts that follow theme, width and paper; explanations; the slider; sortable tables.
const PRINT_WIDTH = 660;
const PRINT_HEIGHT = 0.72; // of that on a screen
const NARROW = 480;
const drawn = new Map();
let sigma = null;
let printing = false;

function isNarrow(box) {
  return !printing && box.clientWidth < NARROW;
}

function option(kind, box) {
  const colours = palette();
  const description = box.getAttribute("aria-label");
  const narrow = isNarrow(box);
  switch (kind) {
    case "eta": return histogram(colours, DATA.eta, description, printing);
    case "balance": return histogram(colours, DATA.balance, description, printing);
    case "heat": return heatMap(colours, DATA.heat, description, printing ? PRINT_WIDTH : box.clientWidth, narrow);
    case "attributes": return ranges(colours, DATA.attributes, description, { narrow, name: narrow ? "least error / spread" : "least error, in spreads of the column (logarithmic)", log: true, reference: 1 });
    case "groups": return ranges(colours, DATA.groups, description, { narrow, name: `η of a ${DATA.who.one}` });
    case "attacks": return ranges(colours, DATA.attacks, description, { narrow, paper: printing, name: "accuracy", share: true, words: { value: "accuracy", mark: "baseline" } });
    default: return tradeoff(colours, DATA.tradeoff, description, sigma, printing, narrow);
  }
}

function heightOf(kind, box) {
  switch (kind) {
    case "eta": return histogramHeight(DATA.eta, printing);
    case "balance": return histogramHeight(DATA.balance, printing);
    case "heat": return 176 + 17 * DATA.heat.rows.length;
    case "attacks": return 76 + (isNarrow(box) ? 48 : 40) * DATA.attacks.length;
    case "tradeoff": return (DATA.tradeoff.points[0].attacks.length ? 420 : 300) + legendRoom(DATA.tradeoff, isNarrow(box));
    default: return 76 + 28 * DATA[kind].length;
  }
}

// Charts of one axis for each entry are lower on paper, where attacks have one line each; others have their own heights.
function paperHeight(kind, box) {
  if (kind === "attacks") return 76 + 17 * DATA.attacks.length;
  if (kind === "tradeoff") return heightOf(kind, box) - (DATA.tradeoff.points[0].attacks.length ? 79 : 55);
  return ["attributes", "groups"].includes(kind) ? 76 + PRINT_HEIGHT * (heightOf(kind, box) - 76) : heightOf(kind, box);
}

function redraw(kind) {
  const entry = drawn.get(kind);
  if (entry) entry.chart.setOption(option(kind, entry.box), { notMerge: true });
}

function draw(box) {
  const kind = box.dataset.chart;
  const chart = echarts.init(box, null, { renderer: "svg" });
  drawn.set(kind, { box, chart, narrow: isNarrow(box) });
  redraw(kind);
}

// A chart is drawn when its part is first opened, and again when it changes between wide and narrow.
function drawAll() {
  for (const box of document.querySelectorAll("[data-chart]")) {
    box.style.height = `${heightOf(box.dataset.chart, box)}px`;
    new ResizeObserver(() => {
      if (printing || box.clientWidth === 0) return;
      const entry = drawn.get(box.dataset.chart);
      if (!entry) { draw(box); return; }
      if (entry.narrow !== isNarrow(box)) {
        box.style.height = `${heightOf(box.dataset.chart, box)}px`;
        redraw(box.dataset.chart);
      }
      entry.chart.resize();
      entry.narrow = isNarrow(box);
    }).observe(box);
    if (box.clientWidth > 0) draw(box);
  }
}

function redrawAll() {
  for (const kind of drawn.keys()) redraw(kind);
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const toggle = document.getElementById("theme");

function showTheme() {
  const chosen = document.documentElement.dataset.theme;
  toggle.setAttribute("aria-pressed", String(chosen ? chosen === "dark" : dark.matches));
  redrawAll();
}

function startTheme() {
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    document.documentElement.dataset.theme = toggle.getAttribute("aria-pressed") === "true" ? "light" : "dark";
    showTheme();
  });
  dark.addEventListener("change", showTheme);
  showTheme();
}

// Each explanation opens beside the button that asked for it, and scrolls with the page.
function place(button, note) {
  const at = button.getBoundingClientRect(), size = note.getBoundingClientRect(), gap = 8;
  const left = Math.max(gap, Math.min(at.left, innerWidth - size.width - gap));
  const below = at.bottom + gap + size.height <= innerHeight;
  const top = below ? at.bottom + gap : Math.max(gap, at.top - gap - size.height);
  Object.assign(note.style, { position: "absolute", margin: "0", inset: `${top + scrollY}px auto auto ${left + scrollX}px` });
}

function startExplanations() {
  let asked = null;
  for (const button of document.querySelectorAll("button[popovertarget]")) {
    button.addEventListener("click", () => { asked = button; });
  }
  for (const note of document.querySelectorAll("[popover]")) {
    // inside the window while it takes the focus, so that the page does not jump
    note.addEventListener("beforetoggle", () => Object.assign(note.style, { position: "fixed", inset: "0", margin: "auto" }));
    note.addEventListener("toggle", (event) => {
      const open = event.newState === "open";
      if (open && asked) place(asked, note);
      for (const button of document.querySelectorAll(`button[popovertarget="${note.id}"]`)) {
        button.setAttribute("aria-expanded", String(open && button === asked));
      }
    });
  }
}

// A link to a folded part opens it.
function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target && (target.querySelector("details.part") || target.closest("details"));
  if (fold) { fold.open = true; target.scrollIntoView(); }
}

// Paper is light, opens what is short, and has a width of its own.
let kept = null;

function beforePrint() {
  if (printing) return;
  printing = true;
  kept = { theme: document.documentElement.dataset.theme, closed: [...document.querySelectorAll("details[data-paper]:not([open])")], opened: [...document.querySelectorAll("details[open]:not([data-paper])")] };
  document.documentElement.dataset.theme = "light";
  for (const part of kept.closed) part.open = true;
  for (const part of kept.opened) part.open = false;
  for (const box of document.querySelectorAll("[data-chart]")) if (box.clientWidth > 0 && !drawn.has(box.dataset.chart)) draw(box);
  for (const [kind, { box, chart }] of drawn) {
    box.style.height = `${paperHeight(kind, box)}px`;
    chart.resize({ width: PRINT_WIDTH, height: paperHeight(kind, box) });
  }
  redrawAll();
}

function afterPrint() {
  if (!printing) return;
  if (kept.theme) document.documentElement.dataset.theme = kept.theme;
  else delete document.documentElement.dataset.theme;
  for (const part of kept.closed) part.open = false;
  for (const part of kept.opened) part.open = true;
  printing = false;
  for (const [kind, { box, chart }] of drawn) {
    box.style.height = `${heightOf(kind, box)}px`;
    chart.resize({ width: "auto", height: "auto" });
  }
  redrawAll();
}

sigma = startSlider(redraw);
startCopy();
drawAll();
startTheme();
startExplanations();
makeSortable();
openTarget();
addEventListener("hashchange", openTarget);
addEventListener("beforeprint", beforePrint);
addEventListener("afterprint", afterPrint);
