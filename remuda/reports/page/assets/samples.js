// The section with the samples of the run.
"use strict";

Remuda.sections.push({
  id: "samples",
  title: "Samples",
  has: () => true,
  build(element, run) {
    const empty = Remuda.el("p", { class: "soft" }, "No samples have been drawn yet.");
    element.append(empty);
    const player = Remuda.pictures(element, run.pictures, { name: "Samples" });
    const update = (next) => {
      empty.hidden = next.pictures.length > 0;
      player.update(next.pictures);
    };
    update(run);
    return update;
  },
});
