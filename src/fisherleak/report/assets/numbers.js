// Numbers as text, like _numbers.py.
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

function percent(value) {
  return value === null || value === undefined ? NOTHING : `${(100 * value).toFixed(1)} %`;
}
