// The x axis that the reader chose, and the failures as marks on it.
"use strict";

(() => {
  const { el, choices, number } = Remuda;
  const AXES = {
    rounds: { label: "round", format: "count", name: "rounds" },
    seconds: { label: "seconds of training", format: "seconds", name: "seconds" },
    images: { label: "images", format: "count", name: "images" },
    bytes: { label: "bytes sent", format: "bytes", name: "bytes" },
  };
  const varies = (values) => values.length > 0 && values[values.length - 1] > values[0];

  // The chosen axis; rounds if the run does not have the chosen one.
  function axis(run) {
    const wanted = choices.get("x");
    const values = run.curves[wanted];
    const key = wanted in AXES && varies(values || []) ? wanted : "rounds";
    return { key, x: run.curves[key], xLabel: AXES[key].label, xFormat: AXES[key].format };
  }

  // The position of a round on the axis.
  function position(run, x, round) {
    const place = run.curves.rounds.findIndex((reached) => reached >= round);
    return x[place < 0 ? x.length - 1 : place];
  }

  function failureText(failure, noun) {
    const ranks = failure.ranks || [];
    const members = failure.members || [];
    const hosts = [...new Set(failure.hosts || [])].join(", ");
    const words = [
      `after round ${number(failure.round)}: lost ${ranks.length === 1 ? "rank" : "ranks"}`,
      ranks.join(", "), hosts ? `(${hosts})` : "",
    ];
    if (members.length) words.push(`with ${noun} ${members.join(", ")}`);
    return words.filter(Boolean).join(" ");
  }

  function marks(run, x) {
    if (!x.length) return [];
    return (run.failures || []).map((failure) => ({
      x: position(run, x, failure.round), label: failureText(failure, run.noun),
    }));
  }

  // A list to choose the axis from. Axes on which the run does not move are disabled.
  function select(run, changed) {
    const options = Object.entries(AXES).map(([key, { name }]) =>
      el("option", { value: key }, name));
    const list = el("select", { id: "x-axis" }, options);
    list.addEventListener("change", () => {
      choices.set("x", list.value === "rounds" ? null : list.value);
      changed();
    });
    const update = (next) => {
      for (const option of options) {
        option.disabled = option.value !== "rounds" && !varies(next.curves[option.value] || []);
      }
      list.value = axis(next).key;
    };
    update(run);
    return { element: el("label", {}, "x axis", list), update };
  }

  Remuda.axes = { axis, marks, select, failureText };
})();
