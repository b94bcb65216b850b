// Zoom with a finger: a drag to the side selects a range of a chart, as a drag with the mouse does.
// The style sheet leaves drags up and down to the browser, so that the page still scrolls.
"use strict";

Remuda.touchZoom = (chart) => {
  const SHORT = 12; // pixels; a shorter drag is a tap
  let start = null;

  // The position of a finger in the plot, between 0 and the plot's width.
  const place = (event) => {
    const { left, width } = chart.plot.over.getBoundingClientRect();
    return Math.min(width, Math.max(0, event.clientX - left));
  };
  const range = (event) => [start, place(event)].sort((a, b) => a - b);
  const clear = () => {
    start = null;
    chart.plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  };

  chart.box.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" && event.isPrimary) start = place(event);
  });
  chart.box.addEventListener("pointermove", (event) => {
    if (start === null || event.pointerType !== "touch") return;
    const [left, right] = range(event);
    const height = chart.plot.over.clientHeight;
    chart.plot.setSelect({ left, top: 0, width: right - left, height }, false);
  });
  chart.box.addEventListener("pointerup", (event) => {
    if (start === null || event.pointerType !== "touch") return;
    const [left, right] = range(event);
    clear();
    if (right - left < SHORT) return;
    chart.zoom(chart.plot.posToVal(left, "x"), chart.plot.posToVal(right, "x"));
  });
  chart.box.addEventListener("pointercancel", () => {
    if (start !== null) clear();
  });
};
