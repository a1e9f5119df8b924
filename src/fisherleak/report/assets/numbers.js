// Numbers as text, like numbers.py.
const NOTHING = "–";

function stripped(text) {
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}

function grouped(text) {
  const [whole, part] = text.split(".");
  const commas = whole.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  return part === undefined ? commas : `${commas}.${part}`;
}

function minus(text) {
  return text.replace("-", "−");
}

function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  if (value === 0) return "0";
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  const exponent = Number(power);
  const rounded = Number(`${mantissa}e${exponent}`);
  if (Math.abs(rounded) >= 1e-3 && Math.abs(rounded) < 1e6) {
    return minus(stripped(grouped(rounded.toFixed(Math.max(0, digits - 1 - exponent)))));
  }
  const raised = String(exponent).replace(/[-\d]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]));
  return `${minus(stripped(mantissa))} × 10${raised}`;
}

// Whole hundredths; with a decimal below 10 % and within five points of chance.
function percent(value, chance = null) {
  if (value === null || value === undefined) return NOTHING;
  const near = Math.abs(value) < 0.0995 || (chance !== null && Math.abs(value - chance) < 0.05);
  return minus(`${(100 * value).toFixed(near ? 1 : 0)} %`);
}

// The same rounded up, but not by what rounding adds.
function percentAtMost(value) {
  const steps = 100 * value * (value < 0.099 ? 10 : 1);
  const up = Math.ceil(steps - 1e-9 * Math.max(1, steps));
  return value < 0.099 ? `${(up / 10).toFixed(1)} %` : `${up} %`;
}
