// Which call sites of two runs are the same, though the program was edited between them.

/** "function (file:line)" in its parts; of a native frame, the module is the file and the offset the line. */
function splitFrame(text) {
  const [, what, file = "", line = 0] = /^(.*?)(?: \(([^()]*?)(?::(\d{1,9}))?\))?$/s.exec(text);
  const [, name, offset = 0] = /^(.*?)(?:\+(0x[0-9a-f]+))?$/s.exec(what);
  return { name, file, line: Number(line) || Number(offset) };
}

/** Sites by their innermost frame and tag, with what they come to. */
function placesOf(run) {
  const places = new Map();
  for (const site of run.sites) {
    const key = `${site.name}\n${site.tag}`;
    if (!places.has(key)) {
      const frames = run.stacks[site.stack].map((frame) => splitFrame(run.frames[frame]));
      places.set(key, { ...frames[0], text: site.name, tag: site.tag, peak: 0, end: 0, mallocs: 0, bytes: 0,
        path: frames.map((frame) => frame.name).join("\n") });
    }
    const place = places.get(key);
    for (const sum of ["peak", "end", "mallocs", "bytes"]) place[sum] += site[sum];
  }
  return [...places.values()];
}

/** How little two places of a function look the same: lines between them, and eight for each doubling of the bytes that
 * a malloc asks for. */
function distance(a, b) {
  return Math.abs(a.line - b.line) + 8 * Math.abs(Math.log2((a.bytes / a.mallocs) / (b.bytes / b.mallocs)) || 0);
}

/** Pairs, in the order of lines, that are least far from each other: all of the shorter list have a partner. */
function alignByLine(first, second) {
  if (first.length > second.length) return alignByLine(second, first).map(([a, b]) => [b, a]);
  const spare = second.length - first.length;
  for (const list of [first, second]) list.sort((a, b) => a.line - b.line);
  // least[i][k]: of the first i with partners among the first i + k.
  const far = (i, k) => distance(first[i - 1], second[i + k - 1]);
  const least = [new Array(spare + 1).fill(0)];
  for (let i = 1; i <= first.length; i += 1) {
    least.push([]);
    for (let k = 0; k <= spare; k += 1)
      least[i].push(Math.min(k > 0 ? least[i][k - 1] : Infinity, least[i - 1][k] + far(i, k)));
  }
  const pairs = [];
  for (let i = first.length, k = spare; i > 0; i -= 1) {
    while (k > 0 && least[i][k] === least[i][k - 1]) k -= 1;
    pairs.push([first[i - 1], second[i + k - 1]]);
  }
  return pairs;
}

/** Pairs of places, with null for one that is in one run only: by function, file and tag, then by line and size; where a file
 * has another name, by the functions of the whole stack. */
function matchPlaces(before, after) {
  const pairs = [];
  const left = [new Set(placesOf(before)), new Set(placesOf(after))];
  for (const keyOf of [(place) => [place.name, place.file], (place) => [place.path]]) {
    const groups = new Map();
    left.forEach((places, which) => {
      for (const place of places) {
        const key = [...keyOf(place), place.tag].join("\0");
        if (!groups.has(key)) groups.set(key, [[], []]);
        groups.get(key)[which].push(place);
      }
    });
    for (const [first, second] of groups.values()) {
      for (const pair of alignByLine(first, second)) {
        pairs.push(pair);
        pair.forEach((place, which) => left[which].delete(place));
      }
    }
  }
  for (const place of left[0]) pairs.push([place, null]);
  for (const place of left[1]) pairs.push([null, place]);
  return pairs;
}
