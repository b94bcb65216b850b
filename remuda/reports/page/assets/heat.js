// A colour scale for heat maps: viridis, which is safe for colour-blind readers and in print.
"use strict";

(() => {
  const { el, number, isNumber, quantile } = Remuda;
  const RARE = 0.03; // part of the values beyond each end of a robust scale
  const STOPS = [
    [68, 1, 84], [72, 40, 120], [62, 73, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137],
    [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37],
  ];

  // The colour of a part between 0 and 1, and black or white for a text on it.
  function shade(part) {
    const place = Math.min(1, Math.max(0, part)) * (STOPS.length - 1);
    const low = Math.floor(place);
    const high = Math.min(STOPS.length - 1, low + 1);
    const rgb = STOPS[low].map((value, k) =>
      Math.round(value + (STOPS[high][k] - value) * (place - low)));
    const [r, g, b] = rgb.map((value) => {
      const c = value / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
    return { paper: `rgb(${rgb.join(",")})`, ink: light > 0.18 ? "#000" : "#fff" };
  }

  // The limits of a scale. With `isRobust`, rare values lie beyond the ends of the scale.
  function range(values, isRobust) {
    const found = Float64Array.from(values.filter(isNumber)).sort();
    if (!found.length) return null;
    const [first, last] = [found[0], found[found.length - 1]];
    const low = isRobust ? quantile(found, RARE) : first;
    const high = isRobust ? quantile(found, 1 - RARE) : last;
    return { low, high, isBelow: first < low, isAbove: last > high };
  }

  const part = (value, { low, high }) => (high > low ? (value - low) / (high - low) : 0.5);

  // The scale with the numbers at its ends; update(range).
  function legend() {
    const bar = el("div", { class: "scale" });
    const colours = STOPS.map((rgb) => `rgb(${rgb.join(",")})`).join(",");
    bar.style.background = `linear-gradient(to right, ${colours})`;
    const [low, high] = [el("span", {}), el("span", {})];
    const element = el("div", { class: "legend soft" }, low, bar, high);
    const update = (limits) => {
      element.hidden = !limits;
      if (!limits) return;
      low.textContent = (limits.isBelow ? "≤ " : "") + number(limits.low, 3);
      high.textContent = (limits.isAbove ? "≥ " : "") + number(limits.high, 3);
    };
    return { element, update };
  }

  Remuda.heat = { shade, range, part, legend };
})();
