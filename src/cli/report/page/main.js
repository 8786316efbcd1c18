// Puts the parts together.

/** What both runs hold at their peaks and ends, by call site and tag. */
function showPairs(pairs) {
  const none = { peak: 0, end: 0, mallocs: 0 };
  const nameOf = (first, second) => {
    if (!first || !second) return `${(first || second).text} (only in the ${first ? "first" : "second"})`;
    return first.text === second.text ? second.text : `${second.text}, before: ${first.text}`;
  };
  const signed = (show) => (value) => (value > 0 ? "+" : "") + show(value);
  const rows = pairs.map(({ before: first, after: second, tag }) => {
    const [a, b] = [first || none, second || none];
    return [nameOf(first, second), tag, a.peak, b.peak, b.peak - a.peak, b.end - a.end,
      b.mallocs - a.mallocs];
  });
  showTable(byId("compare-table"), [
    ...NAME_COLUMNS, { name: "peak of the first", show: bytesText }, { name: "of the second", show: bytesText },
    { name: "difference", show: signed(bytesText) }, { name: "at the end", show: signed(bytesText) },
    { name: "mallocs", show: signed(countText) },
  ], rows, {});
}

/** Pools that are in both runs, one pair of them at a time. */
function showComparison(runs, compared) {
  const chart = new Chart(byId("compare-chart"), byId("compare-readout"), "Live bytes of both runs");
  const difference = new DifferenceGraph();
  const columns = [
    { colour: () => groupColour(0), isLine: true }, { colour: () => groupColour(1), isLine: true, dash: [6, 4] },
  ];
  let pair = null;
  let along = "seconds";
  const told = (value) => (value === null ? "ended" : bytesText(value));
  const showCurves = () => {
    const byEvent = along === "events";
    const [x, first, second] = alignRuns(...pair.map(({ timeline }) => timeline), along);
    columns[0].values = first;
    columns[1].values = second;
    const when = (at) => (byEvent ? `${countText(x[at])} events` : secondsText(x[at]));
    const tell = (at) => `After ${when(at)}: ${told(first[at])} live in the first, ${told(second[at])} in the second.`;
    chart.range = null;
    chart.show({ x, columns, run: { marks: [], failed: [] }, byEvent, tell });
    chartTable(byId("compare-points"), x, columns, byEvent);
  };
  const draw = () => legendFor(byId("compare-legend"), columns, () => chart.draw());
  const show = ({ runs: places, pairs }) => {
    pair = places.map((place) => runs[place]);
    pair.forEach(({ file }, i) => (columns[i].name = `${["first", "second"][i]}: ${file}`));
    showCurves();
    draw();
    showPairs(pairs);
    difference.show(pair, pairs);
  };
  if (compared.length > 1) {
    const names = compared.map(({ name }, i) => [String(i), name]);
    byId("compare-controls").append(makeSelect("pools", "of", names, (value) => show(compared[Number(value)])));
  }
  byId("compare-controls").append(makeSelect("compare", "over", [["seconds", "time"], ["events", "events"]], (value) => {
    along = value;
    showCurves();
  }));
  show(compared[0]);
  drawings.add(draw);
}

/** Both curves over the same moments: "seconds", or "events", which fit together if one run was slower. */
function alignRuns(a, b, along) {
  const x = [...new Set([...a[along], ...b[along]])].sort((p, q) => p - q);
  const curve = (timeline) => {
    const moments = timeline[along];
    let at = 0;
    return x.map((moment) => {
      while (at + 1 < moments.length && moments[at + 1] <= moment) at += 1;
      return moment > moments[moments.length - 1] ? null : timeline.live[at];
    });
  };
  return [x, curve(a), curve(b)];
}

async function main() {
  const data = await readData();
  const runs = data.runs.map(unpackRun);
  readColours();
  byId("charts").hidden = false;
  let run = null;
  // The first, as a span of time in a link is of the run that it names.
  if (runs.length > 1) {
    const names = runs.map((each, i) => [String(i), `${each.file}, pool ${each.pool}`]);
    byId("run-controls").append(makeSelect("run", "Charts and tables of", names, (value) => show(runs[Number(value)])));
  }
  span.start();
  const parts = [new LiveChart(), new AddressMap(), new ChunkView(), new FragmentationChart()];
  const viewers = [new HolderGraph(), new Histogram(), { show: showTables }];
  const showView = () => {
    const view = viewOf(run);
    for (const viewer of viewers) viewer.show(view);
    byId("span").hidden = !span.chosen;
    byId("span-words").textContent = view.words.trim();
    window.gpupoolReport = { data, run, parts, view };
  };
  const show = (wanted) => {
    if (run && span.chosen) span.choose(null);  // of another run, it means nothing
    run = wanted;
    span.end = run.timeline.seconds.at(-1);
    for (const part of parts) part.show(run);
    showView();
  };
  link.add("at", "", (id) => byId(id)?.scrollIntoView({ behavior: "instant" }));
  show(runs[0]);
  span.followers.push(showView);
  if (data.compare.length > 0) showComparison(runs, data.compare);
  link.restore();
  for (const query of ["(prefers-color-scheme: dark)", "print", "(forced-colors: active)"])
    window.matchMedia(query).addEventListener("change", redrawAll);
  document.documentElement.dataset.ready = "yes";
}

main().catch((error) => {
  byId("problem").textContent = `The charts cannot be shown: ${error.message}`;
  document.documentElement.dataset.ready = "failed";
});
