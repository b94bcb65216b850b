// The samples of several runs side by side, with one slider over the rounds.
"use strict";

(() => {
  const { el, number } = Remuda;
  const LARGE = 640; // pixels; limit for the width of a picture
  const SMALL = 420; // pixels; smaller pictures are enlarged up to this width

  // A short line in the colour and dashes of a group.
  function swatch(i) {
    const mark = el("span", { class: "swatch", "aria-hidden": "true" });
    const dash = Remuda.dash(i);
    const gaps = `repeating-linear-gradient(to right, ${Remuda.colour(i)} 0 ${dash[0]}px, `
      + `transparent ${dash[0]}px ${dash[0] + dash[1]}px)`;
    mark.style.background = dash.length ? gaps : Remuda.colour(i);
    return mark;
  }

  function figure(group) {
    const image = el("img", { alt: "" });
    const caption = el("figcaption", {});
    const root = el("figure", { class: "sample" }, el("div", { class: "stage" }, image), caption);

    function update(run, round) {
      const past = run.pictures.filter((picture) => picture.round <= round);
      const picture = past[past.length - 1];
      const words = picture
        ? `round ${number(picture.round)}` : `nothing up to round ${number(round)}`;
      const damaged = picture && !picture.src ? ", damaged" : "";
      image.hidden = !picture || !picture.src;
      caption.replaceChildren(swatch(group), ` ${run.name}: ${words}${damaged}`);
      if (image.hidden) return;
      if (image.getAttribute("src") !== picture.src) image.src = picture.src;
      image.alt = `samples of ${run.name}, ${words}`;
      image.className = picture.is_points ? "points" : "pixels";
      image.style.width = `min(100%, ${Math.min(LARGE, scale(picture) * picture.width)}px)`;
    }

    return { root, update };
  }

  // Enlarge small pictures by a whole number, so that all pixels have the same size.
  const scale = (picture) =>
    (picture.is_points ? 1 : Math.max(1, Math.floor(SMALL / Math.max(1, picture.width))));

  function samples(element, payload, runs) {
    const figures = new Map();
    const grid = el("div", { class: "samples" });
    const label = { "aria-label": "round of samples" };
    const slider = el("input", { type: "range", min: 0, step: 1, ...label });
    const output = el("output", {});
    const bar = el("div", { class: "player" }, slider, output);
    const note = el("p", { class: "soft" });
    let rounds = [];
    element.append(bar, grid, note);

    function draw() {
      const chosen = runs.chosen();
      const round = rounds[Number(slider.value)] ?? 0;
      output.textContent = `round ${number(round)}`;
      slider.setAttribute("aria-valuetext", output.textContent);
      let visible = 0;
      for (const run of payload.runs) {
        if (!figures.has(run.folder)) {
          figures.set(run.folder, figure(run.group));
          grid.append(figures.get(run.folder).root);
        }
        const { root, update } = figures.get(run.folder);
        root.hidden = !chosen.has(run.folder) || !run.pictures.length;
        if (!root.hidden) {
          visible += 1;
          update(run, round);
        }
      }
      bar.hidden = rounds.length < 2 || !visible;
      note.textContent = visible ? "Each run uses the same noise in all rounds."
        : "The chosen runs have no samples.";
    }

    function update(next) {
      const isNewest = Number(slider.value) === rounds.length - 1;
      const before = rounds[Number(slider.value)];
      payload = next;
      const all = next.runs.flatMap((run) => run.pictures.map((picture) => picture.round));
      rounds = [...new Set(all)].sort((a, b) => a - b);
      slider.max = Math.max(0, rounds.length - 1);
      const same = rounds.findLastIndex((round) => round <= before);
      slider.value = isNewest || same < 0 ? rounds.length - 1 : same;
      draw();
    }

    slider.addEventListener("input", draw);
    update(payload);
    return { update, draw };
  }

  Remuda.swatch = swatch;
  Remuda.compareSamples = samples;
})();
