// Formats numbers and words for people. An unknown value is a dash, and never zero.

const UNKNOWN = "\u2013";

const known = (value) => value !== null && value !== undefined;

export function count(value) {
  return known(value) ? Math.round(value).toLocaleString("en-US") : UNKNOWN;
}

/** A short form of a number, such as `1.2 M`. */
export function brief(value) {
  if (!known(value)) return UNKNOWN;
  if (value > 0 && value < 10) return String(Math.round(value * 10) / 10);
  for (const [size, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (value >= size) {
      const scaled = value / size;
      return (scaled < 100 ? scaled.toFixed(1) : Math.round(scaled)) + unit;
    }
  }
  return String(Math.round(value));
}

export function bytes(value) {
  if (!known(value)) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return (unit > 0 && value < 100 ? value.toFixed(1) : Math.round(value)) + " " + units[unit];
}

export function percent(share) {
  if (!known(share)) return UNKNOWN;
  const value = share * 100;
  return (value > 0 && value < 10 ? value.toFixed(1) : Math.floor(value)) + " %";
}

/** An error probability, such as `0.10 %` or `1.2e-7 %`. */
export function chance(share) {
  if (!known(share)) return UNKNOWN;
  if (share === 0) return "0 %";
  const value = share * 100;
  return (value >= 0.001 ? value.toPrecision(2) : value.toExponential(1)) + " %";
}

export function ms(value) {
  if (!known(value)) return UNKNOWN;
  if (value >= 1000) return (value / 1000).toFixed(1) + " s";
  return (value < 10 ? value.toFixed(2) : Math.round(value)) + " ms";
}

export function signedMs(value) {
  if (!known(value)) return UNKNOWN;
  return (value > 0 ? "+" : value < 0 ? "\u2212" : "") + Math.abs(value) + " ms";
}

export function duration(seconds) {
  for (const [length, unit] of [[86400, " d"], [3600, " h"], [60, " min"]]) {
    if (seconds >= length) return Math.floor(seconds / length) + unit;
  }
  return Math.max(0, Math.floor(seconds)) + " s";
}

export function left(endsMs, nowMs) {
  if (!known(endsMs)) return UNKNOWN;
  return endsMs <= nowMs ? "expired" : duration((endsMs - nowMs) / 1000);
}

export function plural(number, one, many) {
  return count(number) + " " + (number === 1 ? one : many);
}

/** The rate of all events per second, if all verdicts are known. */
export function rate(verdicts) {
  const { first_seen_per_s: first, duplicate_per_s: again, undecided_per_s: not } = verdicts;
  return known(first) && known(again) && known(not) ? first + again + not : null;
}
