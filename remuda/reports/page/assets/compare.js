// The page of a comparison: choice of runs, curves, samples, scores, and different settings.
"use strict";

(() => {
  const { el, choices, number } = Remuda;
  const { prepare, quantities, lines } = Remuda.compareData;
  const FIRST = 4; // charts that are shown at first
  const AXES = {
    rounds: { label: "round", format: "count" },
    seconds: { label: "seconds of training", format: "seconds" },
    images: { label: "images", format: "count" },
    bytes: { label: "bytes sent", format: "bytes" },
  };
  const FORMATS = { memory: "bytes", images_per_second: "count" };

  function section(main, id, title) {
    const heading = el("h2", { id: `${id}-title` }, title);
    const element = el("section", { id, "aria-labelledby": `${id}-title` }, heading);
    main.append(element);
    return element;
  }

  // A list of checkboxes whose choice the address keeps. Without a choice, `first` is checked.
  function checklist(name, items, first, changed) {
    const stored = choices.get(name);
    const wanted = stored === null ? null : new Set(stored.split("\n"));
    const boxes = new Map();
    const list = el("ul", {});
    const chosen = () => new Set([...boxes].filter(([, box]) => box.checked).map(([key]) => key));

    function done() {
      const keys = [...chosen()];
      choices.set(name, keys.length ? keys.join("\n") : "none");
      changed();
    }

    function update(next) {
      for (const item of next) {
        if (boxes.has(item.key)) continue;
        const box = el("input", { type: "checkbox" });
        box.checked = wanted ? wanted.has(item.key) : first(item);
        box.addEventListener("change", done);
        boxes.set(item.key, box);
        const text = el("span", { title: item.title }, item.text || item.title);
        list.append(el("li", {}, el("label", {}, box, item.mark || "", text)));
      }
    }

    const set = (value) => () => {
      for (const box of boxes.values()) box.checked = value;
      done();
    };
    const button = (text, value) =>
      el("button", { type: "button", class: "small", onclick: set(value) }, text);
    update(items);
    const buttons = el("div", { class: "controls" }, button("All", true), button("None", false));
    return { list, buttons, chosen, update };
  }

  // Curves

  function curves(element, payload, runs) {
    const all = quantities(payload);
    const isFirst = (item) => {
      const same = all.filter((one) => one.isScore === item.isScore);
      return same.indexOf(item) < FIRST / 2;
    };
    const panels = el("div", { class: "panels" });
    const charts = new Map();
    const x = el("select", { id: "x-axis" },
      Object.keys(AXES).map((key) => el("option", { value: key }, key)));
    const log = el("input", { type: "checkbox", id: "log" });
    const shown = checklist("show", all, isFirst, draw);
    const chooser = el("details", { class: "chooser" },
      el("summary", {}, "Scores and metrics in the charts"), shown.buttons, shown.list);
    const note = el("p", { class: "soft" });
    x.value = choices.get("x") in AXES ? choices.get("x") : "rounds";
    log.checked = choices.get("log") === "yes";
    x.addEventListener("change", () => {
      choices.set("x", x.value === "rounds" ? null : x.value);
      draw();
    });
    log.addEventListener("change", () => {
      choices.set("log", log.checked ? "yes" : null);
      draw();
    });
    element.append(
      el("div", { class: "controls" }, el("label", {}, "x axis", x),
        el("label", {}, log, "logarithmic y axis")),
      chooser, panels, note);

    function spec(quantity, chosen) {
      const axis = AXES[x.value];
      return {
        title: quantity.title, xLabel: axis.label, xFormat: axis.format,
        yFormat: FORMATS[quantity.name], logY: log.checked, group: `compare ${x.value}`,
        ...lines(payload, chosen, quantity, x.value),
      };
    }

    function notes(chosen) {
      const some = payload.runs.filter((run) => chosen.has(run.folder));
      const words = ["Metrics are means over the members. Thick: mean over seeds. Thin: one run.",
        "Between its points, a curve is interpolated."];
      const stride = Math.max(1, ...some.map((run) => run.stride));
      if (stride > 1) words.push(`A point is the mean of up to ${number(stride)} rounds.`);
      const without = some.filter((run) => !run.axes[x.value]).map((run) => run.name);
      if (without.length) words.push(`No ${x.value} recorded: ${without.join(", ")}.`);
      return words.join(" ");
    }

    function draw() {
      const chosen = runs.chosen();
      const wanted = shown.chosen();
      for (const quantity of all) {
        const made = charts.get(quantity.key);
        if (!wanted.has(quantity.key)) {
          if (made) made.element.hidden = true;
          continue;
        }
        if (made) {
          made.element.hidden = false;
          made.update(spec(quantity, chosen));
        } else charts.set(quantity.key, Remuda.chart(panels, spec(quantity, chosen)));
      }
      for (const option of x.options) {
        option.disabled = !payload.runs.some((run) => run.axes[option.value]);
      }
      note.textContent = notes(chosen);
    }

    draw();
    return (next) => {
      payload = next;
      for (const item of quantities(next)) {
        if (!all.some((one) => one.key === item.key)) all.push(item);
      }
      shown.update(all);
      draw();
    };
  }

  // Tables

  function cell({ text, is_best, tail }) {
    const star = is_best ? " ★" : "";
    return { text: `${text}${star}`, note: tail.trim(), mark: is_best ? "good" : "" };
  }

  function spec(payload) {
    return {
      scores: {
        columns: payload.table.columns, caption: "Cost and scores of the groups",
        rows: payload.table.rows.map(([head, ...rest]) => [head.text, ...rest.map(cell)]),
      },
      protocols: { ...payload.protocols, caption: "Protocols of the scores" },
      settings: { ...payload.settings, caption: "Settings in which the groups differ" },
    };
  }

  function fillNotes(list, payload) {
    const best = payload.table.rows.some((row) => row.some((one) => one.is_best));
    const texts = [...(best ? ["★: the best value."] : []), ...payload.notes];
    list.replaceChildren(...texts.map((text) => el("li", {}, text)));
  }

  function tables(main, payload) {
    const first = spec(payload);
    const scores = section(main, "scores", "Scores");
    const table = Remuda.table(scores, first.scores);
    const notes = el("ul", { class: "soft notes" });
    fillNotes(notes, payload);
    const details = el("details", {}, el("summary", {}, "Protocols"));
    details.hidden = !payload.protocols.rows.length;
    const protocols = Remuda.table(details, first.protocols);
    scores.append(notes, details);
    const differences = section(main, "settings", "Different settings");
    const same = el("p", { class: "soft" }, "All groups have the same settings.");
    const settings = Remuda.table(differences, first.settings);
    differences.append(same);
    const update = (next) => {
      const now = spec(next);
      table.update(now.scores);
      protocols.update(now.protocols);
      settings.update(now.settings);
      fillNotes(notes, next);
      details.hidden = !next.protocols.rows.length;
      same.hidden = next.settings.rows.length > 0;
      settings.element.hidden = !same.hidden;
    };
    update(payload);
    return update;
  }

  function start() {
    const main = document.getElementById("main");
    let payload = prepare(Remuda.read("payload"));
    const items = (next) => next.runs.map((run) => ({
      key: run.folder, text: run.name, title: run.folder, mark: Remuda.swatch(run.group),
    }));
    const runs = checklist("runs", items(payload), () => true, () => {
      drawCurves(payload);
      pictures.draw();
    });
    const about = el("p", { class: "soft" }, payload.about);
    const chooser = el("details", { class: "chooser" },
      el("summary", {}, "Runs in the charts and samples"), runs.buttons, runs.list);
    chooser.open = payload.runs.length <= 12 && matchMedia("(min-width: 42rem)").matches;
    if (Remuda.live) main.prepend(el("p", {}, el("a", { href: "./" }, "All runs")));
    main.append(about, chooser);
    const drawCurves = curves(section(main, "curves", "Curves"), payload, runs);
    const pictures = Remuda.compareSamples(section(main, "samples", "Samples"), payload, runs);
    const drawTables = tables(main, payload);
    if (Remuda.live) {
      about.after(Remuda.poll(Remuda.live, (next) => {
        payload = prepare(next);
        about.textContent = payload.about;
        runs.update(items(payload));
        drawCurves(payload);
        pictures.update(payload);
        drawTables(payload);
      }));
    }
    requestAnimationFrame(() => document.documentElement.setAttribute("data-drawn", "yes"));
  }

  start();
})();
