// The curves of several runs on one x axis: each run interpolated, and the mean of each group.
"use strict";

(() => {
  const { decode, isNumber } = Remuda;
  const MAX_POINTS = 1500; // of the common x axis; more than the pixels of a chart

  // Decode the metrics of a payload once.
  function prepare(payload) {
    for (const run of payload.runs) {
      for (const [name, values] of Object.entries(run.metrics)) {
        if (typeof values === "string") run.metrics[name] = Array.from(decode(values));
      }
    }
    return payload;
  }

  // What can be drawn: scores first, then metrics, in the order of the runs.
  function quantities(payload) {
    const metrics = new Set(payload.runs.flatMap((run) => Object.keys(run.metrics)));
    return [
      ...payload.scores.map((score) => ({
        key: `score ${score.label}`, name: score.label, isScore: true, floor: score.floor,
        title: `${score.label} ${score.direction}`.trim(),
      })),
      ...[...metrics].map((name) => ({
        key: `metric ${name}`, name, isScore: false, floor: null, title: Remuda.readable(name),
      })),
    ];
  }

  // The points [x, y] of a run in the order of x; empty if the run lacks the axis or the quantity.
  function points(run, quantity, axis) {
    const found = quantity.isScore ? run.scores[quantity.name] : null;
    const values = quantity.isScore ? found?.values : run.metrics[quantity.name];
    const x = quantity.isScore ? found?.axes[axis] : run.axes[axis];
    if (!values || !x) return [];
    const pairs = [];
    values.forEach((value, i) => {
      if (!isNumber(value) || !isNumber(x[i])) return;
      // Rounds without traffic stand at the same place: the last one counts.
      if (pairs.length && pairs[pairs.length - 1][0] >= x[i]) pairs.pop();
      pairs.push([x[i], value]);
    });
    return pairs;
  }

  function commonAxis(curves) {
    const all = [...new Set(curves.flatMap((pairs) => pairs.map(([x]) => x)))];
    all.sort((a, b) => a - b);
    if (all.length <= MAX_POINTS) return all;
    const [first, last] = [all[0], all[all.length - 1]];
    return Array.from({ length: MAX_POINTS },
      (_, i) => first + ((last - first) * i) / (MAX_POINTS - 1));
  }

  // The values of a curve on an axis; null before its first and after its last point.
  function sample(pairs, axis) {
    let place = 0;
    return axis.map((x) => {
      while (place < pairs.length && pairs[place][0] < x) place += 1;
      if (place === pairs.length) return null;
      const [x1, y1] = pairs[place];
      if (x1 === x) return y1;
      if (place === 0) return null;
      const [x0, y0] = pairs[place - 1];
      return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
    });
  }

  // The mean where all curves have a value, so that it does not jump when one ends.
  function meanOf(columns) {
    return columns[0].map((_, i) => {
      const values = columns.map((column) => column[i]);
      return values.every(isNumber) ? Remuda.mean(values) : null;
    });
  }

  // Return {x, series} for a chart: means of the groups first, then their runs.
  function lines(payload, chosen, quantity, axis) {
    const runs = payload.runs
      .filter((run) => chosen.has(run.folder))
      .map((run) => ({ run, pairs: points(run, quantity, axis) }))
      .filter(({ pairs }) => pairs.length > 0);
    const x = commonAxis(runs.map(({ pairs }) => pairs));
    const means = [];
    const singles = [];
    payload.groups.forEach((group, i) => {
      const own = runs.filter(({ run }) => run.group === i);
      const style = { colour: Remuda.colour(i), dash: Remuda.dash(i) };
      const columns = own.map(({ pairs }) => sample(pairs, x));
      const isSeveral = own.length > 1;
      if (isSeveral) {
        const name = `${group.name} (mean of ${own.length})`;
        means.push({ ...style, name, values: meanOf(columns), width: 2.5 });
      }
      own.forEach(({ run }, j) => singles.push({
        ...style, name: run.name, values: columns[j], width: isSeveral ? 0.75 : 2,
      }));
    });
    const series = [...means, ...singles];
    if (isNumber(quantity.floor) && x.length) {
      const values = x.map(() => quantity.floor);
      series.push({ name: "real images", values, colour: "var(--soft)", dash: [4, 4], width: 1 });
    }
    return { x, series };
  }

  Remuda.compareData = { prepare, quantities, points, sample, commonAxis, lines };
})();
