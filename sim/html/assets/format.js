// Numbers as the terminal shows them (src/base/quantity.cpp, sim/view/terminal.cpp): three significant digits in the
// unit that suits the size. Everything takes numbers as the JSON has them: seconds, bytes, shares.

/** As printf's %.Nf does, which rounds a tie to even; toFixed would round it up. */
function fixed(value, digits) {
  const isTie = Number.isInteger(value * 2 ** (digits + 1)) && Math.abs((value * 10 ** digits) % 1) === 0.5;
  if (!isTie) return value.toFixed(digits);
  const below = Math.floor(value * 10 ** digits);
  return ((below % 2 === 0 ? below : below + 1) / 10 ** digits).toFixed(digits);
}

/** As printf's %.Ng does. */
function general(value, digits = 3) {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return "0";
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const power = Number(exponent);
  const short = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (power >= -4 && power < digits) return short(fixed(value, digits - 1 - power));
  return `${short(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}

function toThreeDigits(value) {
  if (value === 0 || value >= 1000) return Math.round(value);
  const step = 10 ** (Math.floor(Math.log10(value)) - 2);
  return Math.round(value / step) * step;
}

function threeDigits(value) {
  const rounded = toThreeDigits(value);
  if (rounded >= 100) return rounded.toFixed(0);
  if (rounded >= 10) return rounded.toFixed(1);
  if (rounded >= 1) return rounded.toFixed(2);
  return general(rounded);
}

const timeUnits = [["ns", 1e-9], ["us", 1e-6], ["ms", 1e-3], ["s", 1]];
const sizeUnits = [["B", 1], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30], ["TiB", 2 ** 40], ["PiB", 2 ** 50]];

/** In the largest unit that leaves at least 1 once it is rounded. */
function inSuitableUnit(value, units) {
  const base = units.find(([, scale]) => scale === 1)[0];
  if (value === 0 || !Number.isFinite(value)) return `${value} ${base}`;
  if (value < 0) return `-${inSuitableUnit(-value, units)}`;
  let chosen = 0;
  while (chosen + 1 < units.length) {
    const step = units[chosen + 1][1] / units[chosen][1];
    if (toThreeDigits(value / units[chosen][1]) < step * (1 - 1e-12)) break;
    ++chosen;
  }
  const number = value / units[chosen][1];
  return `${number >= 1e6 ? general(number) : threeDigits(number)} ${units[chosen][0]}`;
}

function time(seconds) {
  if (seconds < 0) return `-${time(-seconds)}`;
  if (!(seconds >= 59.95) || !Number.isFinite(seconds)) return inSuitableUnit(seconds, timeUnits);
  const two = (number) => String(number).padStart(2, "0");
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  const hours = Math.round(seconds / 3600);
  return hours < 24e5 ? `${Math.floor(hours / 24)} d ${two(hours % 24)} h` : `${general(hours / 24)} d`;
}

function bytes(size) {
  if (Math.abs(size) < 1024 && Number.isInteger(size)) return `${size} B`;
  return inSuitableUnit(size, sizeUnits);
}

function number(value) {
  return value >= 100 ? fixed(value, 0) : general(value);
}

/** Cents of less than 100, else four digits: no prediction knows more. */
function money(value) {
  if (Math.abs(value) < 100) return fixed(value, 2);
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.abs(value))) - 3);
  return fixed(Math.round(value / unit) * unit, 0);
}

/** Without the sign of what rounds to nothing. */
function unsignedZero(text) {
  return text.replace(/^-(?=[0.]+$)/, "");
}

/** How each kind of figure is written. `whole` and `text` leave it as the JSON has it. */
const formats = {
  time,
  bytes,
  number,
  rate: (value) => `${number(value)} samples/s`,
  percent: (share) => `${unsignedZero(fixed(100 * share, 1))} %`,
  signedPercent: (share) => `${unsignedZero(fixed(100 * share, 1)).replace(/^(?!-)/, "+")} %`,
  points: (share) => `${fixed(100 * share, 1)} points`,
  usd: (value) => `${money(value)} USD`,
  gpuHours: (value) => `${number(value)} GPU hours`,
  energy: (value) => `${number(value)} kWh`,
  mass: (value) => `${number(value)} kg`,
  updates: (value) => `${fixed(value, 2)} updates`,
  count: (value) => `${value} updates`,
  samples: (value) => (Number.isFinite(value) ? `${fixed(value, 0)} samples` : "never"),
  whole: (value) => String(value),
  text: (value) => String(value),
  yesNo: (value) => (value ? "yes" : "no"),
};

/** A figure as text; "" for one that is not known. */
function show(value, format) {
  return value === null || value === undefined ? "" : formats[format](value);
}

/** "880 ms to 1.02 s"; "" where there is none. */
function showRange(ends, format) {
  return ends ? `${show(ends[0], format)} to ${show(ends[1], format)}` : "";
}

/** What the numbers of a key of ours are, by the unit at the end of its name. */
function formatOf(key) {
  const name = key.split(".").at(-1);
  if (key === "accuracy.time_s" || name.endsWith("_s") && !name.endsWith("per_s")) return "time";
  if (name === "samples_per_s") return "rate";
  if (name.endsWith("bytes")) return "bytes";
  if (name === "usd" || name === "budget_usd") return "usd";
  if (name === "gpu_hours") return "gpuHours";
  if (name.endsWith("_kwh")) return "energy";
  if (name.endsWith("_kg")) return "mass";
  if (/^(accuracy|mfu|mfu_all_pairs|hfu|gpu_utilization|share|failure_probability|deadline_share)$/.test(name)) return "percent";
  if (key === "staleness" || key === "staleness.mean") return "updates";
  return "number";
}

/** "samples per s", "memory: allocated peak" */
function wordsOf(key) {
  return key
    .split(".")
    .map((part) => part.replace(/_(s|bytes|usd|kwh|kg)$/, "").replaceAll("_", " "))
    .join(": ");
}

function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** The member of nested objects that dots lead to; undefined where one is missing. */
function member(object, key) {
  return key.split(".").reduce((inner, name) => (inner === null || inner === undefined ? undefined : inner[name]), object);
}
