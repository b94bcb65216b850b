// The run that a page shows: the newest payload with its curves decoded, and new points appended.
"use strict";

(() => {
  const { decode, columns } = Remuda;
  const AXES = ["rounds", "seconds", "images", "bytes", "speed", "memory"];

  // Cut an array at a point and append what follows.
  const join = (old, from, added) => [...old.slice(0, from), ...added];

  function decoded(packed, points, width) {
    const values = decode(packed);
    const count = width || Math.max(1, Math.round(values.length / Math.max(1, points)));
    return columns(values, count);
  }

  function appended(old, from, added) {
    if (!old || old.length !== added.length || !from) return added;
    return added.map((column, j) => join(old[j], from, column));
  }

  function unpackCurves(old, packed) {
    const from = old ? packed.from || 0 : 0;
    const points = packed.rounds.length;
    const { generation, stride, ids } = packed;
    const curves = { generation, stride, ids, from };
    for (const axis of AXES) curves[axis] = join(from ? old[axis] : [], from, packed[axis] || []);
    curves.metrics = {};
    for (const [name, text] of Object.entries(packed.metrics)) {
      curves.metrics[name] = appended(from ? old.metrics[name] : null, from,
        decoded(text, points, 0));
    }
    return curves;
  }

  function unpackTraffic(old, traffic, from) {
    if (!traffic) return null;
    const directions = {};
    for (const [name, values] of Object.entries(traffic.directions)) {
      const before = from && old ? old.directions[name] : null;
      // A direction that appears late has no bytes in the points before.
      directions[name] = from ? join(before || Array(from).fill(0), from, values) : values;
    }
    return { directions };
  }

  // Fields and weights get one array per cell (and slot) over the points of the curves. A field is
  // a metric of the members; cell i is the member with the id i.
  function unpackTorus(old, torus, curves, points) {
    if (!torus) return null;
    const from = old ? curves.from : 0;
    const places = Array.from({ length: torus.height * torus.width }, (_, cell) =>
      curves.ids.indexOf(cell));
    const blank = curves.rounds.map(() => null);
    const fields = {};
    for (const name of torus.fields) {
      fields[name] = places.map((place) => curves.metrics[name]?.[place] || blank);
    }
    const width = curves.ids.length * torus.slots;
    const weights = torus.weights && width
      ? appended(from ? old.weights : null, from, decoded(torus.weights, points, width))
      : null;
    return { ...torus, rounds: curves.rounds, fields, weights };
  }

  // Combine the model that the page shows (null at first) with a new payload.
  Remuda.model = (old, payload) => {
    const curves = unpackCurves(old && old.curves, payload.curves);
    const points = payload.curves.rounds.length;
    return {
      ...payload,
      curves,
      traffic: unpackTraffic(old && old.traffic, payload.traffic, curves.from),
      torus: unpackTorus(old && old.torus, payload.torus, curves, points),
    };
  };
})();
