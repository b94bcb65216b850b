// Everything that all pages share: elements, numbers, colours and decoded curves.
"use strict";

const Remuda = (() => {
  const NAMES = { class: "className", text: "textContent" };

  // Create an element. Texts become text nodes, so that names from a record never become markup.
  function el(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name in NAMES) element[NAMES[name]] = value;
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
  }

  // Values of a JSON script; null if the page has none with this id.
  function read(id) {
    const script = document.getElementById(id);
    return script ? JSON.parse(script.textContent) : null;
  }

  const IS_LITTLE = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

  // Decode little-endian float32 numbers from base64.
  function decode(text) {
    const letters = atob(text);
    const bytes = new Uint8Array(letters.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
    if (IS_LITTLE) return new Float32Array(bytes.buffer, 0, bytes.length >> 2);
    const view = new DataView(bytes.buffer);
    return Float32Array.from({ length: bytes.length >> 2 }, (_, i) => view.getFloat32(4 * i, true));
  }

  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

  // Format a number with this many significant digits, and a whole number with all its digits.
  function number(value, digits = 4) {
    if (!isNumber(value)) return "–";
    if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
    const size = Math.abs(value);
    if (size < 1e-4 || size >= 1e7) return value.toExponential(digits - 2).replace("e+", "e");
    return Number(value.toPrecision(digits)).toLocaleString("en-US", {
      maximumFractionDigits: 10,
    });
  }

  function scaled(value, units, base, digits) {
    let i = 0;
    while (Math.abs(value) >= base && i < units.length - 1) {
      value /= base;
      i += 1;
    }
    return number(value, digits) + units[i];
  }

  const count = (value, digits = 3) =>
    isNumber(value) ? scaled(value, ["", "k", "M", "G", "T"], 1000, digits) : "–";
  const bytes = (value, digits = 3) =>
    isNumber(value) ? scaled(value, [" B", " kB", " MB", " GB", " TB"], 1000, digits) : "–";

  function duration(value, digits = 3) {
    if (!isNumber(value)) return "–";
    const size = Math.abs(value);
    if (size < 120) return `${number(value, digits)} s`;
    if (size < 7200) return `${number(value / 60, digits)} min`;
    if (size < 48 * 3600) return `${number(value / 3600, digits)} h`;
    return `${number(value / 86400, digits)} days`;
  }

  const FORMATS = { number, count, bytes, seconds: duration };

  // Times of the record are UTC; pages show them in the reader's time zone.
  function time(text) {
    const date = new Date(text);
    if (!text || Number.isNaN(date.getTime())) return text || "";
    const today = date.toDateString() === new Date().toDateString();
    const day = { year: "numeric", month: "short", day: "numeric" };
    return date.toLocaleString("en-GB", {
      ...(today ? {} : day),
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    });
  }

  const readable = (name) => name.replaceAll("_", " ").replace(/\blr\b/, "learning rate");

  // A name that may break after an underscore, such as fid_10k_train_inception.
  function breakable(name) {
    const parts = String(name).split(/(?<=_)/);
    return el("span", {}, parts.flatMap((part, i) => (i ? [el("wbr"), part] : [part])));
  }

  // The palette is safe for colour-blind readers; page.css has one for light and one for dark.
  const colours = Array.from({ length: 8 }, (_, i) => `var(--c${i})`);
  const DASHES = [[], [7, 4], [2, 3]];
  const colour = (i) => colours[i % colours.length];
  const dash = (i) => DASHES[Math.floor(i / colours.length) % DASHES.length];

  // A short line in a colour, with the dashes that a chart draws.
  function lineMark(colour, dashes = [], width = 2) {
    const mark = el("span", { class: "line", "aria-hidden": "true" });
    const style = dashes[0] > 4 ? "dashed" : "dotted";
    mark.style.borderTopColor = colour;
    mark.style.borderTopStyle = dashes.length ? style : "solid";
    mark.style.borderTopWidth = `${Math.max(2, width)}px`;
    return mark;
  }

  // The value of a colour such as var(--c0) for a canvas, which knows no variables.
  function resolve(text) {
    const match = /^var\((--[\w-]+)\)$/.exec(text || "");
    if (!match) return text;
    return getComputedStyle(document.documentElement).getPropertyValue(match[1]).trim();
  }

  // Split rows of numbers into one array per column; null stands for a missing value.
  function columns(values, width) {
    const length = Math.floor(values.length / width);
    const found = [];
    for (let j = 0; j < width; j++) {
      const column = new Array(length);
      for (let i = 0, k = j; i < length; i++, k += width) {
        const value = values[k];
        column[i] = Number.isFinite(value) ? value : null;
      }
      found.push(column);
    }
    return found;
  }

  function mean(values) {
    let sum = 0;
    let found = 0;
    for (const value of values) {
      if (!isNumber(value)) continue;
      sum += value;
      found += 1;
    }
    return found ? sum / found : null;
  }

  // The given quantile of sorted numbers.
  function quantile(sorted, part) {
    if (!sorted.length) return null;
    const place = part * (sorted.length - 1);
    const low = Math.floor(place);
    const high = Math.ceil(place);
    return sorted[low] + (sorted[high] - sorted[low]) * (place - low);
  }

  // The choices of the reader, which the address keeps after "#": {members: "0,3", x: "seconds"}.
  const choices = {
    get(name) {
      return new URLSearchParams(location.hash.slice(1)).get(name);
    },
    set(name, value) {
      const all = new URLSearchParams(location.hash.slice(1));
      if (value === null || value === "") all.delete(name);
      else all.set(name, value);
      const text = all.toString().replaceAll("%2C", ",");
      history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
    },
  };

  // Call the function when the colours of the page change; on paper, they are always light.
  function onScheme(action) {
    for (const query of ["(prefers-color-scheme: dark)", "print"]) {
      matchMedia(query).addEventListener("change", action);
    }
  }

  // Why the server refused a request: its sentence, or at least the number.
  async function refusal(answer) {
    const found = await answer.json().catch(() => ({}));
    return found.error || `status ${answer.status}`;
  }

  return {
    el, read, refusal, decode, isNumber, number, count, bytes, duration, time, readable, breakable,
    colours, colour, dash, lineMark, resolve, columns, mean, quantile, choices, onScheme, FORMATS,
    live: null,
    sections: [],
  };
})();

Remuda.live = Remuda.read("live");

// The address after "#" keeps the reader's choices, so this link only moves the focus.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
