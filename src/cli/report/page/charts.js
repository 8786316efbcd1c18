// Charts over time or events.

function axisStyle(values, size) {
  return {
    stroke: colours.soft, font: "12px system-ui, sans-serif", size,
    grid: { stroke: colours.grid, width: 1 }, ticks: { stroke: colours.grid, width: 1 }, values,
  };
}

/** Ticks of powers of two, as bytes are told. */
function byteSplits(plot, axis, least, most, step) {
  let unit = 1;
  while (unit * 1024 <= Math.max(most, 1)) unit *= 1024;
  const wanted = step / unit;
  const nice = [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 20, 32, 50, 64, 100, 128, 200, 256, 512];
  const every = (nice.find((one) => one >= wanted) || 512) * unit;
  const splits = [];
  for (let at = Math.ceil(least / every) * every; at <= most && splits.length < 50; at += every) splits.push(at);
  return splits;
}

/** Vertical lines for marks, and ticks for failed mallocs. */
function drawMoments(plot, run, byEvent) {
  if (byEvent) return;
  const { ctx, bbox } = plot;
  const [least, most] = [plot.scales.x.min, plot.scales.x.max];
  const seen = run.marks.map((mark) => mark[0] / 1e6).filter((at) => at >= least && at <= most);
  const step = Math.ceil(seen.length / 60) || 1;
  ctx.save();
  ctx.strokeStyle = colours.line;
  ctx.setLineDash([3, 3]);
  for (let i = 0; i < seen.length; i += step) {
    const x = Math.round(plot.valToPos(seen[i], "x", true)) + 0.5;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  ctx.fillStyle = colours.bad;
  for (const [us] of run.failed) {
    if (us / 1e6 < least || us / 1e6 > most) continue;
    const x = plot.valToPos(us / 1e6, "x", true);
    ctx.beginPath();
    ctx.moveTo(x - 6, bbox.top);
    ctx.lineTo(x + 6, bbox.top);
    ctx.lineTo(x, bbox.top + 12);
    ctx.fill();
  }
  ctx.restore();
}

/**
 * A chart of columns over x. `columns` are {name, values, colour, isLine}; areas are stacked. `choose` is told which
 * range of x the reader wants to see, or null: all; the chart shows it when `zoom` is called.
 */
class Chart {
  constructor(host, readout, label, choose) {
    this.host = host;
    this.readout = readout;
    this.choose = choose || ((range) => this.zoom(range));
    this.range = null;
    host.tabIndex = 0;
    host.setAttribute("role", "group");
    host.setAttribute("aria-label", `${label}. The arrow keys move the cursor, plus and minus zoom, with Shift the arrow ` +
      "keys move what is shown, 0 shows all.");
    host.addEventListener("keydown", (event) => this.onKey(event));
    host.addEventListener("dblclick", () => this.choose(null));
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(host);
    drawings.add(() => this.draw());
  }

  show(content) {
    this.content = content;
    this.draw();
  }

  draw() {
    if (!this.content) return;
    const { x, columns, run, byEvent } = this.content;
    if (this.plot) this.plot.destroy();
    const areas = columns.filter((column) => !column.isLine && !column.isHidden);
    const lines = columns.filter((column) => column.isLine && !column.isHidden);
    const total = new Float64Array(x.length);
    const stacked = areas.map((column) => Array.from(column.values, (value, i) => (total[i] += value)));
    const stepped = uPlot.paths.stepped({ align: 1 });
    const series = [{}];
    // The highest first, so that each area is painted over by those below it.
    for (const column of [...areas].reverse())
      series.push({ fill: column.colour(), stroke: colours.back, width: 0.5, paths: stepped, points: { show: false } });
    for (const column of lines)
      series.push({ stroke: column.colour(), width: 2, dash: column.dash, paths: stepped, points: { show: false },
        spanGaps: true });
    const time = (plot, ticks) => ticks.map((tick) => (byEvent ? countText(tick) : `${+tick.toPrecision(6)} s`));
    this.plot = new uPlot({
      width: Math.max(this.host.clientWidth, 200), height: 300, series, legend: { show: false },
      scales: { x: { time: false }, y: { range: (plot, least, most) => [0, Math.max(most * 1.05, 1)] } },
      axes: [{ ...axisStyle(time, 34), space: 90 }, { ...axisStyle((plot, ticks) => ticks.map(bytesText), 80), splits: byteSplits }],
      cursor: { drag: { x: true, y: false, setScale: false }, y: false, points: { show: false } },
      hooks: { setCursor: [() => this.tell()], draw: [(plot) => drawMoments(plot, run, byEvent)],
        setSelect: [(plot) => this.onSelect(plot)] },
    }, [x, ...[...stacked].reverse(), ...lines.map((column) => column.values)], this.host);
    this.zoom(this.range);
  }

  zoom(range) {
    this.range = range;
    const { x } = this.content;
    const [min, max] = range || [x[0], x[x.length - 1]];
    this.plot.setScale("x", { min, max });
  }

  onSelect(plot) {
    const { left, width } = plot.select;
    if (width === 0) return;
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.choose([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
  }

  resize() {
    if (this.plot) this.plot.setSize({ width: Math.max(this.host.clientWidth, 200), height: 300 });
  }

  tell() {
    const at = this.plot && this.plot.cursor.idx;
    if (at === null || at === undefined || !this.content) return;
    this.readout.textContent = this.content.tell(at);
  }

  onKey(event) {
    const { x } = this.content;
    const { min, max } = this.plot.scales.x;
    const [first, last] = [x[0], x[x.length - 1]];
    const show = (from, to) => this.choose(from <= first && to >= last ? null : [Math.max(from, first), Math.min(to, last)]);
    const zoom = (by, middle) => show(middle - ((max - min) / 2) * by, middle + ((max - min) / 2) * by);
    const move = (by) => {
      const way = Math.min(Math.max(((max - min) / 8) * by, first - min), last - max);
      show(min + way, max + way);
    };
    const at = this.plot.cursor.idx === null || this.plot.cursor.idx === undefined ? 0 : this.plot.cursor.idx;
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -x.length, End: x.length };
    if (event.shiftKey && event.key.startsWith("Arrow")) move(event.key === "ArrowLeft" ? -1 : 1);
    else if (event.key in steps) {
      const to = Math.min(Math.max(at + steps[event.key], 0), x.length - 1);
      this.plot.setCursor({ left: this.plot.valToPos(x[to], "x"), top: 10 });
      // Several moments may share a pixel.
      this.plot.cursor.idx = to;
      this.tell();
    } else if (event.key === "+") zoom(0.5, x[at]);
    else if (event.key === "-") zoom(2, x[at]);
    else if (event.key === "0") this.choose(null);
    else return;
    event.preventDefault();
  }
}

function legendFor(list, columns, redraw) {
  list.replaceChildren();
  for (const column of columns) {
    const swatch = make("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = column.colour();
    const box = make("input", { type: "checkbox", on: { change: () => {
      column.isHidden = !box.checked;
      redraw();
    } } });
    box.checked = !column.isHidden;
    list.append(make("li", {}, make("label", {}, box, swatch, make("span", { class: "name" }, column.name))));
  }
}

/** At most 60 of the rows, as a table for those who cannot see the chart. */
function chartTable(host, x, columns, byEvent) {
  const step = Math.ceil(x.length / 60);
  const rows = [];
  for (let i = 0; i < x.length; i += step) rows.push([x[i], ...columns.map((column) => column.values[i])]);
  const first = byEvent ? { name: "event", show: countText } : { name: "time", show: secondsText };
  showTable(host, [first, ...columns.map((column) => ({ name: column.name, show: bytesText }))], rows, {});
}

class LiveChart {
  constructor() {
    this.division = "0";
    this.byEvent = false;
    this.chart = new Chart(byId("live-chart"), byId("live-readout"), "Live bytes over time",
      (range) => span.choose(range && this.byEvent ? range.map((event) => this.secondsAt(event)) : range));
    const choices = [["0", "tag"], ["1", "size of the block"], ["2", "stream"], ["3", "thread"]];
    byId("live-controls").append(
      makeSelect("by", "divided by", choices, (value) => this.set(() => (this.division = value))),
      makeSelect("over", "over", [["", "time"], ["1", "events"]], (value) => this.set(() => (this.byEvent = value === "1"))));
    span.followers.push(() => this.chart.zoom(this.rangeOf(span.chosen)));
    drawings.add(() => this.run && legendFor(byId("live-legend"), this.columns, () => this.chart.draw()));
  }

  set(change) {
    change();
    this.show(this.run);
  }

  secondsAt(event) {
    const { events, seconds } = this.run.timeline;
    return seconds[Math.max(events.findLastIndex((each) => each <= event), 0)];
  }

  /** The chosen span, in the chart's x. */
  rangeOf(bounds) {
    if (!bounds || !this.byEvent) return bounds;
    const { events, seconds } = this.run.timeline;
    const [from, to] = bounds.map((moment) => Math.max(seconds.findLastIndex((each) => each <= moment), 0));
    return to > from ? [events[from], events[to]] : null;
  }

  show(run) {
    this.run = run;
    const { timeline } = run;
    const group = timeline.groups[Number(this.division)];
    const x = this.byEvent ? timeline.events : timeline.seconds;
    this.columns = group.names.map((name, i) => ({ name, values: group.bytes[i], colour: () => groupColour(i) }));
    this.columns.push({ name: "memory of the pool", values: timeline.reserved, colour: () => colours.text, isLine: true });
    if (run.limit) {
      this.columns.push({ name: "its limit", values: timeline.live.map(() => run.limit), colour: () => colours.bad,
        isLine: true, dash: [8, 6] });
    }
    const tell = (at) => {
      const parts = group.names.map((name, i) => [group.bytes[i][at], name]).filter(([bytes]) => bytes > 0)
        .sort((a, b) => b[0] - a[0]).slice(0, 6).map(([bytes, name]) => `${name}: ${bytesText(bytes)}`);
      return `After ${secondsText(timeline.seconds[at])}, ${countText(timeline.events[at])} events: ` +
        `${bytesText(timeline.live[at])} live in ${countText(timeline.blocks[at])} blocks, ` +
        `${bytesText(timeline.reserved[at])} held. ${parts.join("; ")}`;
    };
    this.chart.range = this.rangeOf(span.chosen);
    this.chart.show({ x, columns: this.columns, run, byEvent: this.byEvent, tell });
    legendFor(byId("live-legend"), this.columns, () => this.chart.draw());
    chartTable(byId("live-table"), x, this.columns, this.byEvent);
    byId("live-caption").textContent = `The most is live after ${secondsText(timeline.seconds[timeline.peak])}: ` +
      `${bytesText(run.peak_live)}. Each point is the moment of its interval at which most was live. ` +
      (run.marks.length && !this.byEvent ? "Dashed lines are marks. " : "") +
      (run.failed.length && !this.byEvent ? "Triangles at the top are mallocs that failed. " : "") + "Drag to choose a span of time: map, flame graph and tables show it, too.";
  }
}

class FragmentationChart {
  constructor() {
    this.chart = new Chart(byId("free-chart"), byId("free-readout"), "Free memory over time",
      (range) => span.choose(range));
    span.followers.push(() => this.chart.zoom(span.chosen));
    drawings.add(() => this.columns && legendFor(byId("free-legend"), this.columns, () => this.chart.draw()));
  }

  show(run) {
    const { timeline, grid } = run;
    const stuck = timeline.live.map((live, i) => Math.max(timeline.reserved[i] - live - timeline.idle[i], 0));
    const largest = new Array(timeline.seconds.length).fill(null);
    let column = 0;
    timeline.us.reduce((total, difference, i) => {
      const us = total + difference;
      while (column < grid.seconds.length && Math.round(grid.seconds[column] * 1e6) <= us)
        largest[i] = grid.largest_free[column++];
      return us;
    }, 0);
    this.columns = [
      { name: "free in chunks that a block holds", values: stuck, colour: () => groupColour(1) },
      { name: "free chunks", values: timeline.idle, colour: () => groupColour(2) },
      { name: "largest free piece", values: largest, colour: () => colours.text, isLine: true },
    ];
    const tell = (at) => {
      const free = stuck[at] + timeline.idle[at];
      return `After ${secondsText(timeline.seconds[at])}: ${bytesText(free)} of ${bytesText(timeline.reserved[at])} ` +
        `are free, ${bytesText(stuck[at])} of it in chunks that a block holds.`;
    };
    this.chart.range = span.chosen;
    this.chart.show({ x: timeline.seconds, columns: this.columns, run, byEvent: false, tell });
    legendFor(byId("free-legend"), this.columns, () => this.chart.draw());
    chartTable(byId("free-table"), timeline.seconds, this.columns, false);
    const at = timeline.peak;
    byId("free-caption").textContent = timeline.reserved[at] === 0
      ? "The recording has no chunks."
      : `At the peak ${bytesText(stuck[at])} were free in chunks that blocks hold, ` +
        `${(100 * stuck[at] / timeline.reserved[at]).toFixed(1)} % of what the pool held. ` +
        "A free chunk can go to any stream, or back to the device; one that a block touches can only be filled again.";
  }
}
