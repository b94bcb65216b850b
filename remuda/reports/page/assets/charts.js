// Remuda.chart(element, spec): a chart that zooms, shows values, and reads as text.
//
// spec = {title, xLabel, xFormat?, yFormat?, x, series, bands?, marks?, logY?, group?, note?}
//   series: [{name, values, colour?, dash?, width?, points?, span?}]; `span` connects over gaps
//   bands:  [{low, high, colour?}];  marks: [{x, label}] are vertical lines
//   xFormat, yFormat: "number", "count", "bytes" or "seconds"
//   group: charts with the same group have the same zoom and cursor
// It returns a Chart with element, update(spec), zoom(min, max) and reset().
"use strict";

(() => {
  const { el, isNumber, number, lineMark, FORMATS } = Remuda;
  const { shape, data, options, summary } = Remuda.chartParts;
  const HEIGHT = 220; // pixels
  const MAX_NAMED = 6; // values in the line below a chart
  const NEAR = 6; // pixels between the cursor and a mark that it names
  const groups = new Map(); // charts that zoom together, by the name of their group
  let numCharts = 0;

  const fullRange = (x) => {
    const [first, last] = [x[0], x[x.length - 1]];
    return { min: first, max: last > first ? last : first + 1 };
  };

  class Chart {
    constructor(element, spec) {
      this.spec = spec;
      this.plot = null;
      this.range = null; // [min, max] of the zoom
      this.at = null; // the point under the cursor
      this.made = ""; // the shape for which the plot was made
      this.build(element);
      if (spec.group) groups.set(spec.group, [...(groups.get(spec.group) || []), this]);
      this.draw();
    }

    build(element) {
      numCharts += 1;
      this.heading = el("h3", {});
      this.button = el("button", { type: "button", class: "small", hidden: true }, "Reset zoom");
      this.words = el("p", { class: "hidden", id: `chart-${numCharts}` });
      this.box = el("div", {
        class: "plot", tabindex: "0", role: "slider", "aria-describedby": this.words.id,
      });
      this.readout = el("p", { class: "readout soft" });
      this.note = el("p", { class: "soft note" });
      this.table = Remuda.chartTable(() => this.spec);
      this.element = el("figure", { class: "chart" },
        el("div", { class: "chart-head" }, this.heading, this.button),
        this.box, this.words, this.readout, this.note, this.table.element);
      element.append(this.element);
      this.button.addEventListener("click", () => {
        this.reset();
        this.box.focus();
      });
      this.box.addEventListener("keydown", (event) => this.onKey(event));
      Remuda.touchZoom(this);
      new ResizeObserver(() => this.fit()).observe(this.box);
      Remuda.onScheme(() => this.plot.redraw());
    }

    fit() {
      const width = this.box.clientWidth;
      if (width && Math.abs(this.plot.width - width) > 1) {
        this.plot.setSize({ width, height: HEIGHT });
      }
    }

    update(spec) {
      // Another x axis makes the old zoom meaningless.
      if (spec.xLabel !== this.spec.xLabel) this.range = null;
      this.spec = spec;
      this.draw();
    }

    draw() {
      const { spec } = this;
      this.heading.textContent = spec.title;
      this.note.textContent = spec.note || "";
      this.note.hidden = !spec.note;
      this.box.setAttribute("aria-label", spec.title);
      this.box.setAttribute("aria-valuemin", 0);
      this.box.setAttribute("aria-valuemax", Math.max(0, spec.x.length - 1));
      this.box.setAttribute("aria-valuenow", this.at ?? Math.max(0, spec.x.length - 1));
      this.words.textContent = summary(spec);
      this.table.update();
      if (!this.plot || shape(spec) !== this.made) this.make();
      else this.plot.setData(data(spec), false);
      this.applyRange();
      this.show(this.at);
    }

    make() {
      if (this.plot) this.plot.destroy();
      const size = { width: Math.max(200, this.box.clientWidth), height: HEIGHT };
      const hooks = {
        setCursor: (plot) => this.show(plot.cursor.idx ?? null),
        select: (min, max) => this.zoom(min, max),
        reset: () => this.reset(),
        marks: () => this.spec.marks || [],
      };
      this.plot = new uPlot(options(this.spec, size, hooks), data(this.spec), this.box);
      this.made = shape(this.spec);
    }

    // Zoom

    applyRange() {
      this.button.hidden = !this.range;
      if (!this.spec.x.length) return;
      const [min, max] = this.range || [];
      this.plot.setScale("x", this.range ? { min, max } : fullRange(this.spec.x));
    }

    zoom(min, max) {
      const together = (this.spec.group && groups.get(this.spec.group)) || [this];
      for (const chart of together) {
        chart.range = min === null ? null : [min, max];
        chart.applyRange();
      }
    }

    reset() {
      this.zoom(null, null);
    }

    zoomBy(factor) {
      const { min, max } = this.plot.scales.x;
      const middle = this.at === null ? (min + max) / 2 : this.spec.x[this.at];
      const half = ((max - min) / 2) * factor;
      const full = fullRange(this.spec.x);
      const [low, high] = [Math.max(full.min, middle - half), Math.min(full.max, middle + half)];
      if (low <= full.min && high >= full.max) this.reset();
      else this.zoom(low, high);
    }

    // Values

    // The lines with a value at a point; of many lines, first those nearest to the pointer.
    valuesAt(i) {
      const { top } = this.plot.cursor;
      const height = top >= 0 ? this.plot.posToVal(top, "y") : null;
      const found = this.spec.series
        .map((line, order) => ({ line, order, value: line.values[i] }))
        .filter((item) => isNumber(item.value));
      if (found.length > MAX_NAMED && height !== null) {
        const distance = (item) => (item.order === 0 ? -1 : Math.abs(item.value - height));
        found.sort((a, b) => distance(a) - distance(b));
      }
      return found;
    }

    marksNear(x) {
      const place = this.plot.valToPos(x, "x");
      return (this.spec.marks || []).filter((mark) =>
        Math.abs(this.plot.valToPos(mark.x, "x") - place) < NEAR);
    }

    xText(value) {
      const { xFormat, xLabel } = this.spec;
      const hasUnit = xFormat === "seconds" || xFormat === "bytes";
      return `${xLabel} ${hasUnit ? FORMATS[xFormat](value) : number(value, 6)}`;
    }

    // Show the values at a point; without a point, those of the last one.
    show(i) {
      const last = this.spec.x.length - 1;
      if (last < 0) return;
      this.at = i === null || i > last ? null : i;
      const place = this.at ?? last;
      const x = this.spec.x[place];
      const format = FORMATS[this.spec.yFormat || "number"];
      const found = this.valuesAt(place);
      const items = found.slice(0, MAX_NAMED).map(({ line, order, value }) =>
        el("span", { class: "item" },
          lineMark(line.colour || Remuda.colour(order), line.dash, line.width),
          `${line.name} ${format(value)}`));
      const more = found.length - items.length;
      const marks = this.at === null ? [] : this.marksNear(x);
      this.readout.replaceChildren(el("span", { class: "item" }, `${this.xText(x)}:`), ...items,
        more > 0 ? `${more} more` : "", ...marks.map((mark) => el("span", {}, mark.label)));
      const text = [...this.readout.childNodes].map((node) => node.textContent);
      this.box.setAttribute("aria-valuenow", place);
      this.box.setAttribute("aria-valuetext", text.filter(Boolean).join(" "));
    }

    // Keys

    onKey(event) {
      const { key } = event;
      const last = this.spec.x.length - 1;
      const step = event.shiftKey ? 10 : 1;
      const back = (this.at ?? last + 1) - step;
      const forth = (this.at ?? -1) + step;
      const moves = {
        ArrowLeft: back, ArrowDown: back, ArrowRight: forth, ArrowUp: forth, Home: 0, End: last,
      };
      if (key in moves) this.moveTo(Math.min(last, Math.max(0, moves[key])));
      else if (key === "+") this.zoomBy(0.5);
      else if (key === "-") this.zoomBy(2);
      else if (key === "Escape" || key === "0") this.reset();
      else return;
      event.preventDefault();
    }

    moveTo(i) {
      if (i < 0) return;
      this.plot.setCursor({ left: this.plot.valToPos(this.spec.x[i], "x"), top: -10 }, false);
      this.show(i);
    }
  }

  Remuda.chart = (element, spec) => new Chart(element, spec);
})();
