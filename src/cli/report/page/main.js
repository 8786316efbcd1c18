// Puts the parts together.

/** What two runs hold at their peaks and ends, by call site and tag. */
function showComparison(before, after) {
  const sums = new Map();
  [before, after].forEach((run, which) => {
    for (const site of run.sites) {
      const key = `${site.name}\n${site.tag}`;
      if (!sums.has(key)) sums.set(key, { name: site.name, tag: site.tag, peak: [0, 0], end: [0, 0], mallocs: [0, 0] });
      const row = sums.get(key);
      row.peak[which] += site.peak;
      row.end[which] += site.end;
      row.mallocs[which] += site.mallocs;
    }
  });
  const signed = (show) => (value) => (value > 0 ? "+" : "") + show(value);
  const rows = [...sums.values()].map((row) => [row.name, row.tag, row.peak[0], row.peak[1], row.peak[1] - row.peak[0],
    row.end[1] - row.end[0], row.mallocs[1] - row.mallocs[0]]);
  rows.sort((a, b) => Math.abs(b[4]) - Math.abs(a[4]) || Math.abs(b[5]) - Math.abs(a[5]));
  showTable(byId("compare-table"), [
    ...NAME_COLUMNS, { name: "peak of the first", show: bytesText }, { name: "of the second", show: bytesText },
    { name: "difference", show: signed(bytesText) }, { name: "at the end", show: signed(bytesText) },
    { name: "mallocs", show: signed(countText) },
  ], rows, {});
  const [x, first, second] = alignRuns(before.timeline, after.timeline);
  const chart = new Chart(byId("compare-chart"), byId("compare-readout"), "Live bytes of both runs");
  const columns = [
    { name: `first: ${before.file}`, values: first, colour: () => groupColour(0), isLine: true },
    { name: `second: ${after.file}`, values: second, colour: () => groupColour(1), isLine: true, dash: [6, 4] },
  ];
  const told = (value) => (value === null ? "ended" : bytesText(value));
  const tell = (at) => `After ${secondsText(x[at])}: ${told(first[at])} live in the first, ${told(second[at])} in the second.`;
  const draw = () => legendFor(byId("compare-legend"), columns, () => chart.draw());
  chart.show({ x, columns, run: { marks: [], failed: [] }, byEvent: false, tell });
  drawings.add(draw);
  draw();
  chartTable(byId("compare-points"), x, columns, false);
}

/** Both curves over the same moments. */
function alignRuns(a, b) {
  const x = [...new Set([...a.seconds, ...b.seconds])].sort((p, q) => p - q);
  const along = (timeline) => {
    let at = 0;
    const end = timeline.seconds[timeline.seconds.length - 1];
    return x.map((seconds) => {
      while (at + 1 < timeline.seconds.length && timeline.seconds[at + 1] <= seconds) at += 1;
      return seconds > end ? null : timeline.live[at];
    });
  };
  return [x, along(a), along(b)];
}

async function main() {
  const data = await readData();
  const runs = data.runs.map(unpackRun);
  readColours();
  byId("charts").hidden = false;
  const parts = [new LiveChart(), new AddressMap(), new ChunkView(), new FragmentationChart(), new FlameGraph()];
  const show = (run) => {
    for (const part of parts) part.show(run);
    showTables(run);
    window.gpupoolReport = { data, run, parts };
  };
  if (runs.length > 1) {
    const names = runs.map((run, i) => [String(i), `${run.file}, pool ${run.pool}`]);
    byId("run-controls").append(makeSelect("Charts and tables of", names, (value) => show(runs[Number(value)])));
  }
  show(runs[0]);
  if (data.compare) showComparison(runs[data.compare[0]], runs[data.compare[1]]);
  for (const query of ["(prefers-color-scheme: dark)", "print", "(forced-colors: active)"])
    window.matchMedia(query).addEventListener("change", redrawAll);
  document.documentElement.dataset.ready = "yes";
}

main().catch((error) => {
  byId("problem").textContent = `The charts cannot be shown: ${error.message}`;
  document.documentElement.dataset.ready = "failed";
});
