// Remuda.pictures(element, pictures, {name}): the samples of a run with a slider over its rounds.
// pictures = [{round, src, width, height, rows, is_points}], oldest first; src is null if damaged.
"use strict";

(() => {
  const { el, number } = Remuda;
  const LARGE = 720; // pixels; limit for the longer side of an enlarged picture
  const SECONDS = 0.4; // between two pictures while they play

  // Enlarge by a whole number of the screen's pixels, so that all pixels have the same size.
  function size(picture, room) {
    const ratio = window.devicePixelRatio || 1;
    if (picture.is_points) return Math.min(room, picture.width);
    const limit = Math.min(room, (LARGE * picture.width) / Math.max(picture.width, picture.height));
    const factor = Math.floor((limit * ratio) / picture.width);
    return factor < 1 ? limit : (factor * picture.width) / ratio;
  }

  Remuda.pictures = (element, pictures, { name = "Samples" } = {}) => {
    let place = pictures.length - 1;
    let timer = null;
    const image = el("img", { alt: "" });
    const damaged = el("div", { class: "damaged soft", hidden: true });
    const labels = el("div", { class: "row-labels" });
    const caption = el("figcaption", {});
    const stage = el("div", { class: "stage" }, labels, image, damaged);
    const slider = el("input", { type: "range", min: 0, step: 1, "aria-label": `${name}: round` });
    const play = el("button", { type: "button", class: "small" }, "Play");
    const output = el("output", {});
    const bar = el("div", { class: "player" }, play, slider, output);
    const root = el("figure", { class: "pictures" }, stage, caption, bar);
    element.append(root);

    function fit() {
      const picture = pictures[place];
      if (!picture || !picture.src) return;
      const side = labels.hidden ? 0 : labels.offsetWidth + 8;
      const width = size(picture, Math.max(64, root.clientWidth - side));
      image.style.width = `${width}px`;
      const height = (width * picture.height) / picture.width;
      image.style.height = `${height}px`;
      const row = height / Math.max(1, labels.childElementCount);
      labels.style.lineHeight = `${row}px`;
      labels.style.fontSize = `${Math.min(13, 0.9 * row)}px`;
    }

    function draw() {
      const picture = pictures[place];
      root.hidden = !picture;
      if (!picture) return;
      const round = `round ${number(picture.round)}`;
      const rows = picture.rows || [];
      stage.hidden = false;
      image.hidden = labels.hidden = !picture.src;
      damaged.hidden = !!picture.src;
      damaged.textContent = `${picture.name || `The picture of ${round}`} is damaged.`;
      if (picture.src && image.getAttribute("src") !== picture.src) image.src = picture.src;
      image.className = picture.is_points ? "points" : "pixels";
      image.alt = `${name} of ${round}` + (rows.length ? `; rows: ${rows.join(", ")}` : "");
      if (labels.textContent !== rows.join("") || labels.childElementCount !== rows.length) {
        labels.replaceChildren(...rows.map((row) => el("span", { title: row }, row)));
      }
      labels.hidden = !rows.length || !picture.src;
      slider.max = pictures.length - 1;
      slider.value = place;
      slider.setAttribute("aria-valuetext", round);
      output.textContent = round;
      caption.textContent = pictures.length > 1 ? "All rounds use the same noise." : round;
      bar.hidden = pictures.length < 2;
      fit();
    }

    function stop() {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
    }

    function step() {
      if (place >= pictures.length - 1) return stop();
      place += 1;
      return draw();
    }

    play.addEventListener("click", () => {
      if (timer) return stop();
      if (place >= pictures.length - 1) place = 0;
      play.textContent = "Pause";
      timer = setInterval(step, 1000 * SECONDS);
      return draw();
    });
    slider.addEventListener("input", () => {
      stop();
      place = Number(slider.value);
      draw();
    });
    new ResizeObserver(fit).observe(root);
    draw();

    return {
      element: root,
      // A reader who looks at the newest picture gets the next one; others stay where they are.
      update(next) {
        const present = pictures[place];
        const isNewest = place === pictures.length - 1 && !timer;
        pictures = next;
        const same = present ? next.findIndex((picture) => picture.round === present.round) : -1;
        if (isNewest || !present) place = next.length - 1;
        else if (same >= 0) place = same;
        else place = Math.max(0, next.findLastIndex((picture) => picture.round <= present.round));
        draw();
      },
      // Show the last picture that is not newer than this round.
      show(round) {
        const found = pictures.findLastIndex((picture) => picture.round <= round);
        if (found >= 0) place = found;
        draw();
      },
      get round() {
        return pictures[place]?.round ?? null;
      },
    };
  };
})();
