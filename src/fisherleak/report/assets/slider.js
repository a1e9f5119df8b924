// The slider: σ on a logarithmic scale. Etas go as 1/σ, errors as σ; utility and attacks are read between the points given.
const STEPS = 1000;

function sigmaRange() {
  const points = DATA.tradeoff.points, chosen = DATA.chosen.scale;
  const scales = points.length ? points.map((p) => p.scale) : [chosen / 100, chosen * 100];
  return { low: Math.min(chosen, ...scales), high: Math.max(chosen, ...scales), chosen, current: chosen };
}

// Linear in log σ between neighbouring points; null outside them.
function between(points, scale, read) {
  const last = points.length - 1;
  const near = 1e-9;
  if (last < 0 || scale < points[0].scale * (1 - near) || scale > points[last].scale * (1 + near)) return null;
  let k = 0;
  while (k < last - 1 && points[k + 1].scale < scale) k += 1;
  if (last === 0) return read(points[0]);
  const [a, b] = [points[k], points[k + 1]];
  const part = Math.min(1, Math.max(0, Math.log(scale / a.scale) / Math.log(b.scale / a.scale)));
  return read(a) + part * (read(b) - read(a));
}

// The share revealed goes with the exposure, which goes as 1 / sigma: e² / (1 + e²).
function exposureOf(share) {
  return Math.sqrt(share / (1 - share));
}

function revealed(factor) {
  if (DATA.chosen.share === null) return NOTHING;
  if (DATA.chosen.share >= 1) return "100 %";
  const square = (exposureOf(DATA.chosen.share) * factor) ** 2;
  return percentAtMost(square / (1 + square));
}

// A scale to a few digits, never below: what is asked for holds.
function roundedUp(value, digits = 3) {
  const near = Number(value.toPrecision(digits));
  if (near >= value * (1 - 1e-12)) return near;
  return Number((near + 10 ** (Math.floor(Math.log10(value)) - digits + 1)).toPrecision(digits));
}

function readAt(sigma) {
  const factor = DATA.chosen.scale / sigma;
  const eta = (key) => (DATA.chosen.eta[key] === null ? null : DATA.chosen.eta[key] * factor);
  const { points, metric } = DATA.tradeoff;
  const attacked = points.length ? points[0].attacks : [];
  const utility = between(points, sigma, (p) => p.utility);
  return {
    max: number(eta("max")), share: revealed(factor),
    utility: utility === null ? "not tried here" : metric === "accuracy" ? percent(utility) : number(utility),
    attacks: attacked.map((_, j) => percent(between(points, sigma, (p) => p.attacks[j].accuracy), DATA.tradeoff.chances[j])),
    errors: DATA.chosen.errors.map(({ least, spread }) => [
      least === null ? "no limit" : `± ${number(least / factor)}`,
      least === null || !spread ? NOTHING : number(least / factor / spread),
    ]),
  };
}

function write(sigma) {
  const shown = readAt(sigma);
  for (const key of ["max", "share", "utility"]) {
    for (const place of document.querySelectorAll(`[data-live="${key}"]`)) place.textContent = shown[key];
  }
  document.querySelectorAll("[data-live-attack]").forEach((place, j) => { place.textContent = shown.attacks[j]; });
  document.querySelectorAll("[data-live-error]").forEach((row, j) => {
    [...row.querySelectorAll("td")].slice(0, 2).forEach((cell, k) => { cell.textContent = shown.errors[j][k]; });
  });
  return shown;
}

function showCommand(sigma) {
  const place = document.getElementById("command");
  if (place && DATA.command) writeCommand(place, DATA.command.join(String(String(sigma).length > 9 ? roundedUp(sigma, 4) : sigma)));
}

// A line of a command ends between words, never behind the hyphens of an option.
function writeCommand(place, text) {
  place.replaceChildren(...text.split(" ").flatMap((word, k) => {
    const whole = document.createElement("span");
    whole.textContent = word;
    return k ? [" ", whole] : [whole];
  }));
}

// Every command has a button that copies it.
function startCopy() {
  for (const code of document.querySelectorAll(".command code, #record code")) writeCommand(code, code.textContent);
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent).then(() => {
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      });
    });
  }
}

// Targets in words: each says which scale it needs, and the slider goes there.
function startTargets(go) {
  const share = document.getElementById("target-share"), error = document.getElementById("target-error");
  const column = document.getElementById("target-column"), chosen = DATA.chosen;
  if (share) share.addEventListener("change", () => {
    const part = Number(share.value) / 100;
    if (part > 0 && part < 1 && chosen.share < 1) go(chosen.scale * exposureOf(chosen.share) / exposureOf(part));
  });
  const byError = () => {
    const least = chosen.errors.find(({ name }) => name === column.value);
    if (least && Number(error.value) > 0) go(chosen.scale * Number(error.value) / least.least);
  };
  if (error) for (const place of [error, column]) place.addEventListener("change", byError);
}

// The limit: one stop for each release that was tried, with its command.
function startLimit() {
  const slider = document.getElementById("limit");
  if (!slider) return;
  const show = () => {
    const { words, command } = DATA.limits[Number(slider.value)];
    document.querySelectorAll("[data-limit]").forEach((place, k) => { place.textContent = words[k + 1]; });
    const text = `η ≤ ${words[0]}`;
    document.getElementById("limit-value").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    const place = document.getElementById("command");
    if (place && command) writeCommand(place, command);
  };
  slider.addEventListener("input", show);
  show();
}

function startSlider(redraw) {
  const slider = document.getElementById("sigma");
  const range = sigmaRange();
  if (!slider) return range;
  const span = Math.log(range.high / range.low);
  const at = (sigma) => (span > 0 ? Math.round((STEPS * Math.log(sigma / range.low)) / span) : 0);
  const home = at(range.chosen);
  const said = document.getElementById("sigma-said");
  let later = 0;
  const show = (sigma) => {
    range.current = sigma;
    const shown = write(sigma);
    showCommand(sigma);
    const text = `σ = ${number(sigma)}${sigma === range.chosen ? ", the chosen scale" : ""}`;
    document.getElementById("sigma-value").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    clearTimeout(later);
    // one announcement when the slider rests, not one for every step
    later = setTimeout(() => {
      said.textContent = `At ${text}: η of the most exposed ${DATA.who.one} ${shown.max}, revealed at most ${shown.share}, utility ${shown.utility}.`;
    }, 400);
    redraw("tradeoff");
  };
  const move = () => {
    const position = Number(slider.value);
    show(position === home ? range.chosen : Number((range.low * Math.exp((span * position) / STEPS)).toPrecision(6)));
  };
  const go = (sigma) => {
    const wanted = roundedUp(sigma);
    slider.value = String(Math.min(STEPS, Math.max(0, at(wanted))));
    show(wanted);
  };
  slider.value = String(home);
  slider.addEventListener("input", move);
  document.getElementById("sigma-home").addEventListener("click", () => { slider.value = String(home); show(range.chosen); });
  startTargets(go);
  startLimit();
  write(range.chosen);
  showCommand(range.chosen);
  return range;
}
