// The span of time that charts, map, flame graph and tables show: all of it, or a part that the reader has chosen.

const span = {
  /** `[from, to]` in seconds, or null: all. Parts add what shows another one to `followers`. */
  chosen: null,
  end: Infinity,  // of the run that is shown
  followers: [],

  start() {
    link.add("span", "", (text) => {
      const [from, to] = text.split(",").map(Number);
      const isPart = from < Math.min(to, this.end);
      if (!isPart) link.keep("span", "");
      this.set(isPart ? [Math.max(from, 0), Math.min(to, this.end)] : null);
    });
    byId("span-all").addEventListener("click", () => this.choose(null));
  },

  choose(bounds) {
    link.keep("span", bounds ? bounds.map((seconds) => +seconds.toFixed(6)).join(",") : "");
    this.set(bounds);
  },

  set(bounds) {
    this.chosen = bounds;
    for (const follow of this.followers) follow();
  },
};

/** The windows that a span touches, and which of them has its peak. */
function windowsOf(run, [from, to]) {
  const { seconds, live } = run.timeline;
  const ends = run.windows.map(([, end]) => seconds[end]);
  const last = ends.length - 1;
  const reached = (moment, isIn) => {
    const at = ends.findIndex((end) => isIn(end, moment));
    return at < 0 ? last : at;
  };
  const first = reached(from, (end, moment) => end > moment);
  const final = Math.max(reached(to, (end, moment) => end >= moment), first);
  let peak = first;
  for (let at = first; at <= final; at += 1)
    if (live[run.windows[at][0]] > live[run.windows[peak][0]]) peak = at;
  return { first, last: final, peak, from: first === 0 ? 0 : ends[first - 1], to: ends[final] };
}

/**
 * What a group's windows come to between two of them: `sums` of all figures; and where the figures begin of the last
 * window before, of the one at the peak or the last before that, and of the last one; -1: there is none.
 */
function addUp(list, width, { first, last, peak }) {
  const made = { sums: new Array(width).fill(0), most: new Array(width).fill(0), before: -1, atPeak: -1, isPeak: false, end: -1 };
  for (let at = 0, window = 0; at < list.length; at += width + 1) {
    window += list[at];
    if (window > last) break;
    made.end = at + 1;
    if (window <= peak) [made.atPeak, made.isPeak] = [at + 1, window === peak];
    if (window < first) {
      made.before = at + 1;
      continue;
    }
    for (let i = 0; i < width; i += 1) {
      made.sums[i] += list[at + 1 + i];
      made.most[i] = Math.max(made.most[i], list[at + 1 + i]);
    }
  }
  return made;
}

function figureAt(list, at, i) {
  return at < 0 ? 0 : list[at + i];
}

function siteIn(site, windows) {
  const list = site.windows;
  const { sums, before, atPeak, isPeak, end } = addUp(list, 11, windows);
  const [mallocs, bytes, rounding, , , , , temporaryMallocs, temporary, freed, life] = sums;
  const atEnd = figureAt(list, end, 6) * BYTE_UNIT;
  return {
    ...site, mallocs, bytes: bytes * BYTE_UNIT, rounding, temporaryMallocs, temporary: temporary * BYTE_UNIT,
    life: freed ? life / freed / 1e6 : 0, peakBlocks: figureAt(list, atPeak, isPeak ? 3 : 5),
    peak: figureAt(list, atPeak, isPeak ? 4 : 6) * BYTE_UNIT, endBlocks: figureAt(list, end, 5), end: atEnd,
    grown: Math.max(atEnd - figureAt(list, before, 6) * BYTE_UNIT, 0), growth: "",
  };
}

function sizeIn({ size, windows: list }, windows) {
  const { sums, most, before } = addUp(list, 3, windows);
  return { size, mallocs: sums[0], most: Math.max(most[1], figureAt(list, before, 2)) };
}

function doublingIn({ power, windows: list }, windows) {
  const { sums, atPeak, isPeak, end } = addUp(list, 4, windows);
  return { power, mallocs: sums[0], bytes: sums[1] * BYTE_UNIT, peak: figureAt(list, atPeak, isPeak ? 2 : 3) * BYTE_UNIT,
    end: figureAt(list, end, 3) * BYTE_UNIT };
}

/** What flame graph and tables show: of the whole run, or of the chosen span. */
function viewOf(run) {
  if (!span.chosen) return { run, words: "", sites: run.sites, sizes: run.sizes, doublings: run.doublings, failed: run.failed };
  const windows = windowsOf(run, span.chosen);
  return {
    run, words: ` from ${secondsText(windows.from)} to ${secondsText(windows.to)}`, isPart: true,
    sites: run.sites.map((site) => siteIn(site, windows)).filter((site) => site.mallocs || site.peak || site.end),
    sizes: run.sizes.map((size) => sizeIn(size, windows)).filter((size) => size.most),
    doublings: run.doublings.map((one) => doublingIn(one, windows)),
    failed: run.failed.filter(([us]) => us * 1e-6 >= windows.from && us * 1e-6 <= windows.to),
  };
}
