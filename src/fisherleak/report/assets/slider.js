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

function readAt(sigma) {
  const factor = DATA.chosen.scale / sigma;
  const eta = (key) => (DATA.chosen.eta[key] === null ? null : DATA.chosen.eta[key] * factor);
  const { points, metric } = DATA.tradeoff;
  const attacked = points.length ? points[0].attacks : [];
  const utility = between(points, sigma, (p) => p.utility);
  return {
    max: number(eta("max")), mean: number(eta("mean")), dataset: number(eta("dataset")),
    utility: utility === null ? "not tried here" : metric === "accuracy" ? percent(utility) : number(utility),
    attacks: attacked.map((_, j) => percent(between(points, sigma, (p) => p.attacks[j].accuracy))),
    errors: DATA.chosen.errors.map(({ least, spread }) => [
      least === null ? "no limit" : `± ${number(least / factor)}`,
      least === null || !spread ? NOTHING : number(least / factor / spread),
    ]),
  };
}

function write(sigma) {
  const shown = readAt(sigma);
  for (const key of ["max", "mean", "dataset", "utility"]) {
    for (const place of document.querySelectorAll(`[data-live="${key}"]`)) place.textContent = shown[key];
  }
  document.querySelectorAll("[data-live-attack]").forEach((place, j) => { place.textContent = shown.attacks[j]; });
  document.querySelectorAll("[data-live-error]").forEach((row, j) => {
    [...row.querySelectorAll("td")].slice(0, 2).forEach((cell, k) => { cell.textContent = shown.errors[j][k]; });
  });
  return shown;
}

function startSlider(redraw) {
  const slider = document.getElementById("sigma");
  const range = sigmaRange();
  if (!slider) return range;
  const span = Math.log(range.high / range.low);
  const home = span > 0 ? Math.round((STEPS * Math.log(range.chosen / range.low)) / span) : 0;
  const said = document.getElementById("sigma-said");
  let later = 0;
  const move = () => {
    const position = Number(slider.value);
    range.current = position === home ? range.chosen : range.low * Math.exp((span * position) / STEPS);
    const shown = write(range.current);
    const text = `σ = ${number(range.current)}${range.current === range.chosen ? ", the chosen scale" : ""}`;
    document.getElementById("sigma-value").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    clearTimeout(later);
    // one announcement when the slider rests, not one for every step
    later = setTimeout(() => {
      said.textContent = `At ${text}: η of the most exposed ${DATA.who.one} ${shown.max}, mean ${shown.mean}, utility ${shown.utility}.`;
    }, 400);
    redraw("tradeoff");
  };
  slider.value = String(home);
  slider.addEventListener("input", move);
  document.getElementById("sigma-home").addEventListener("click", () => { slider.value = String(home); move(); });
  write(range.chosen);
  return range;
}
