// The page of a folder of runs: search, sorting, and a choice of runs to compare.
"use strict";

(() => {
  const { el, choices, number, duration, time, isNumber, breakable } = Remuda;
  const link = (id) => `run/${id.split("/").map(encodeURIComponent).join("/")}/`;

  // Each column: its title, the value to sort by, and whether larger values come first.
  const COLUMNS = [
    { key: "run", title: "run", value: (run) => run.id },
    { key: "strategy", title: "strategy", value: (run) => run.strategy },
    { key: "data", title: "data", value: (run) => run.data },
    { key: "state", title: "state", value: (run) => run.state },
    { key: "round", title: "round", value: (run) => run.round, isNumber: true },
    { key: "best", title: "best", value: (run, score) => shown(run, score)?.best?.value ?? null,
      isNumber: true },
    { key: "newest", title: "newest", isNumber: true,
      value: (run, score) => shown(run, score)?.newest.value ?? null },
    { key: "started", title: "started", value: (run) => run.started },
    { key: "seconds", title: "time trained", value: (run) => run.seconds, isNumber: true },
  ];
  const OWN = ""; // the choice of each run's own score

  function shown(run, score) {
    const name = score === OWN ? run.chosen : score;
    return name === null ? null : run.scores[name] || null;
  }

  function compare(a, b) {
    if (isNumber(a) && isNumber(b)) return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  const isMissing = (value) => value === null || value === undefined || value === "";

  function sorted(runs, order, score) {
    const { value } = COLUMNS.find((column) => column.key === order.key);
    const sign = order.down ? -1 : 1;
    return [...runs].sort((a, b) => {
      const [x, y] = [value(a, score), value(b, score)];
      // Missing values stay at the end in both directions.
      if (isMissing(x) || isMissing(y)) return isMissing(x) - isMissing(y) || compare(a.id, b.id);
      return sign * compare(x, y) || compare(a.id, b.id);
    });
  }

  function matches(run, words) {
    const text = [run.id, run.strategy, run.data, run.state].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  }

  const measured = (one) => (one ? { text: number(one.value), round: one.round } : null);

  function write(cell, main, ...notes) {
    cell.replaceChildren(...(main === "" ? [] : [main]));
    for (const note of notes.filter(Boolean)) {
      cell.append(el("br"), el("span", { class: "soft" }, note));
    }
  }

  // A row keeps its elements, so that an update does not move the focus.
  function makeRow(run, chosen, changed) {
    const box = el("input", { type: "checkbox", "aria-label": `compare ${run.id}` });
    const image = el("img", { alt: "", loading: "lazy" });
    const place = run.id.lastIndexOf("/") + 1;
    const name = el("a", { href: Remuda.live ? link(run.id) : null },
      place ? el("span", { class: "soft" }, run.id.slice(0, place)) : null, run.id.slice(place));
    const cells = Object.fromEntries(COLUMNS.slice(1).map((column) => [
      column.key,
      el("td", { class: `${column.isNumber ? "number" : ""} half`, "data-label": column.title }),
    ]));
    const state = el("span", { class: "state" });
    const bar = el("progress", { "aria-hidden": "true" });
    const remarks = el("p", { class: "remark", hidden: true });
    const title = el("th", { class: "name", scope: "row" }, name, remarks);
    const element = el("tr", {}, el("td", { class: "pick" }, box),
      el("td", { class: "picture" }, el("span", { class: "thumbnail" }, image)),
      title, Object.values(cells));
    box.checked = chosen.has(run.id);
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(run.id);
      else chosen.delete(run.id);
      changed();
    });

    let drawn = "";

    function update(next, score) {
      element.classList.toggle("chosen", chosen.has(next.id));
      box.checked = chosen.has(next.id);
      const key = JSON.stringify([next, score]);
      if (key === drawn) return;
      drawn = key;
      image.hidden = !next.picture;
      if (next.picture && image.getAttribute("src") !== next.picture.src) {
        image.src = next.picture.src;
        image.className = next.picture.is_points ? "points" : "";
        image.title = `samples of round ${number(next.picture.round)}`;
      }
      remarks.textContent = next.remarks.join(" ");
      remarks.hidden = !next.remarks.length;
      state.className = `state ${next.state === "damaged" ? "killed" : next.state}`;
      state.textContent = next.state;
      write(cells.strategy, next.strategy);
      write(cells.data, next.data);
      write(cells.state, state, isNumber(next.left) ? `${duration(next.left)} left` : "");
      write(cells.round, next.rounds ? `${number(next.round)} of ${number(next.rounds)}` : "");
      bar.max = Math.max(1, next.rounds, next.round);
      bar.value = next.round;
      if (next.state === "running") cells.round.append(bar);
      const found = shown(next, score);
      const own = score === OWN && found ? breakable(next.chosen) : "";
      const [best, newest] = [measured(found?.best), measured(found?.newest)];
      write(cells.best, best ? best.text : "", best ? own : "",
        best ? `round ${number(best.round)}` : "");
      write(cells.newest, newest ? newest.text : "", newest ? `round ${number(newest.round)}` : "");
      write(cells.started, next.started ? time(next.started) : "");
      const trained = next.round ? duration(next.seconds) : "";
      write(cells.seconds, trained && !next.is_exact ? `≈ ${trained}` : trained);
    }

    return { element, name, box, update };
  }

  Remuda.indexParts = { COLUMNS, OWN, sorted, matches, makeRow };
})();
