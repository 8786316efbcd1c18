// The map of addresses over time, and the chunks at one moment.

class AddressMap {
  constructor() {
    this.canvas = byId("map-canvas");
    this.byTag = true;
    this.column = 0;
    byId("map-controls").append(
      makeSelect("map", "colours say", [["tag", "tag"], ["full", "how full"]], (value) => {
        this.byTag = value === "tag";
        this.draw();
      }));
    span.followers.push(() => this.draw());
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    drawings.add(() => this.draw());
  }

  show(run) {
    this.run = run;
    this.column = 0;
    this.row = 0;
    const { grid } = run;
    byId("map-caption").textContent = grid.rows === 0
      ? "The recording has no chunks, so there is no map."
      : `${bytesText(grid.bytes)} of addresses had memory behind them at some time, in ${grid.parts.length} ` +
        `${grid.parts.length === 1 ? "part" : "parts"}; the lowest address is at the bottom, and what never had ` +
        "memory is left out. Full colour is live, pale is free, and where nothing is drawn there was no memory.";
    this.canvas.hidden = grid.rows === 0;
    this.draw();
  }

  /** The seconds at the left and the right. */
  bounds() {
    const { seconds } = this.run.grid;
    return span.chosen || [seconds[0], seconds[seconds.length - 1]];
  }

  draw() {
    if (!this.run || this.run.grid.rows === 0) return;
    const { grid } = this.run;
    const { context, width, height } = fitCanvas(this.canvas, 320);
    const [begin, end] = this.bounds();
    // Whole pixels, so that no seams show.
    const scale = this.canvas.width / width;
    const whole = (at) => Math.round(at * scale) / scale;
    this.place = (column) =>
      whole(column >= grid.seconds.length ? width
        : Math.min(Math.max((grid.seconds[column] - begin) / (end - begin || 1), 0), 1) * width);
    const tall = height / grid.rows;
    for (let column = 0; column < grid.fill.length; column += 1) {
      const left = this.place(column);
      const wide = this.place(column + 1) - left;
      if (wide <= 0) continue;
      for (let row = 0; row < grid.rows;) {
        const [fill, tag] = [grid.fill[column][row], grid.tags[column][row]];
        let next = row + 1;
        while (next < grid.rows && grid.fill[column][next] === fill && grid.tags[column][next] === tag) next += 1;
        const top = whole(height - next * tall);
        if (fill !== " ") this.drawCell(context, left, top, wide, whole(height - row * tall) - top, fill, tag);
        row = next;
      }
    }
  }

  drawCell(context, left, top, wide, tall, fill, tag) {
    context.globalAlpha = 1;
    context.fillStyle = colours.free;
    context.fillRect(left, top, wide, tall);
    if (fill === "0") return;
    context.globalAlpha = 0.25 + (0.75 * Number(fill)) / 9;
    context.fillStyle = this.byTag ? groupColour(tag.charCodeAt(0) - 65) : colours.groups[0];
    context.fillRect(left, top, wide, tall);
    context.globalAlpha = 1;
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const { grid } = this.run;
    const [begin, end] = this.bounds();
    const at = begin + ((event.clientX - box.left) / box.width) * (end - begin);
    this.column = Math.max(grid.seconds.findLastIndex((seconds) => seconds <= at), 0);
    this.row = Math.min(Math.max(Math.floor((1 - (event.clientY - box.top) / box.height) * grid.rows), 0), grid.rows - 1);
    this.tell();
  }

  onKey(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (!(event.key in steps)) return;
    const { grid } = this.run;
    const [begin, end] = this.bounds();
    const first = Math.max(grid.seconds.findLastIndex((seconds) => seconds <= begin), 0);
    const last = Math.max(grid.seconds.findLastIndex((seconds) => seconds <= end), 0);
    this.column = Math.min(Math.max(this.column + steps[event.key][0], first), last);
    this.row = Math.min(Math.max(this.row + steps[event.key][1], 0), grid.rows - 1);
    this.tell();
    event.preventDefault();
  }

  /** The address that a place in the map stands for. */
  addressAt(row) {
    const { grid } = this.run;
    let rest = (row / grid.rows) * grid.bytes;
    for (const [begin, bytes] of grid.parts) {
      if (rest < bytes) return begin + Math.floor(rest / BYTE_UNIT) * BYTE_UNIT;
      rest -= bytes;
    }
    return 0;
  }

  tell() {
    const { grid, timeline } = this.run;
    const [fill, tag] = [grid.fill[this.column][this.row], grid.tags[this.column][this.row]];
    const names = timeline.groups[0].names;
    const state = fill === " " ? "no memory" : fill === "0" ? "free" : fill === "9" ? "live" : `some ${fill}0 % live`;
    byId("map-readout").textContent = `After ${secondsText(grid.seconds[this.column])}, around ` +
      `${hexText(this.addressAt(this.row))}: ${state}${tag === " " ? "" : `, most of it ${names[tag.charCodeAt(0) - 65]}`}.`;
  }
}

/** The chunks of one moment, each as wide as it has bytes, in lines. */
class ChunkView {
  constructor() {
    this.canvas = byId("chunk-canvas");
    span.followers.push(() => this.offer());
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    drawings.add(() => this.draw());
  }

  show(run) {
    this.run = run;
    this.offer();
  }

  /** The moments within the chosen span; if there are none, all. */
  offer() {
    if (!this.run) return;
    const all = this.run.moments.map((moment, i) => ({ moment, i }));
    const [from, to] = span.chosen || [0, Infinity];
    const within = all.filter(({ moment }) => moment.us / 1e6 >= from && moment.us / 1e6 <= to);
    const offered = within.length ? within : all;
    const first = offered.find(({ moment }) => moment.name === "at the peak") || offered[0];
    const choices = offered.map(({ moment, i }) => [String(i), `${moment.name} (${secondsText(moment.us / 1e6)})`]);
    byId("chunk-controls").replaceChildren(
      makeSelect("moment", "the chunks", choices, (value) => this.choose(Number(value)), String(first ? first.i : 0)));
    this.choose(Number(link.valueOf("moment")));
  }

  choose(at) {
    this.moment = this.run.moments[at];
    this.block = 0;
    const { moment } = this;
    const has = moment && moment.chunks.length > 0;
    this.canvas.hidden = !has;
    byId("chunk-caption").textContent = !has ? "No chunk was mapped at this moment." :
      `${bytesText(moment.live)} live in ${bytesText(moment.reserved)} of ${countText(moment.chunks.length)} chunks. ` +
      "Each box is a chunk, as wide as it is large; hatched parts are free." +
      (moment.blocks_left_out ? ` ${countText(moment.blocks_left_out)} small blocks are not drawn.` : "") +
      (moment.chunks_left_out ? ` ${countText(moment.chunks_left_out)} chunks are not drawn.` : "");
    byId("chunk-readout").textContent = "";
    this.draw();
    const rows = has ? moment.chunks.map((chunk) => [...chunk, chunk[1] === 0 ? 0 : chunk[3] / chunk[1]]) : [];
    showTable(byId("chunk-table"), [
      { name: "address", show: hexText }, { name: "bytes", show: bytesText }, { name: "stream", show: hexText },
      { name: "live", show: bytesText }, { name: "blocks", show: countText },
      { name: "full", show: (share) => `${(100 * share).toFixed(0)} %` },
    ], rows, { filter: false });
  }

  /** Where each chunk lies: lines are filled from the left. */
  layOut(width) {
    const total = this.moment.chunks.reduce((sum, chunk) => sum + chunk[1], 0);
    const lines = Math.min(Math.max(Math.ceil(this.moment.chunks.length / 24), 4), 24);
    const perPixel = total / (lines * (width - 4)) || 1;
    let [left, line] = [0, 0];
    this.boxes = this.moment.chunks.map((chunk) => {
      const wide = Math.min(Math.max(chunk[1] / perPixel, 2), width);
      if (left + wide > width + 1) [left, line] = [0, line + 1];
      const box = { chunk, left, wide, top: line * 26 };
      left += wide;
      return box;
    });
    return (line + 1) * 26;
  }

  draw() {
    if (!this.moment || this.moment.chunks.length === 0) return;
    const height = this.layOut(Math.max(this.canvas.parentElement.clientWidth, 200));
    const { context } = fitCanvas(this.canvas, height);
    const hatch = this.makeHatch(context);
    const { blocks } = this.moment;
    this.spots = [];
    let first = 0;
    for (const box of this.boxes) {
      const [address, bytes] = box.chunk;
      context.fillStyle = colours.free;
      context.fillRect(box.left, box.top, box.wide - 1, 24);
      context.fillStyle = hatch;
      context.fillRect(box.left, box.top, box.wide - 1, 24);
      while (first < blocks.length && blocks[first][0] + blocks[first][1] <= address) first += 1;
      for (let i = first; i < blocks.length && blocks[i][0] < address + bytes; i += 1) this.drawBlock(context, box, i);
    }
    if (this.spots.length && document.activeElement === this.canvas) this.outline(context);
  }

  makeHatch(context) {
    const tile = make("canvas", { width: 6, height: 6 });
    const drawing = tile.getContext("2d");
    drawing.strokeStyle = colours.hatch;
    drawing.beginPath();
    drawing.moveTo(0, 6);
    drawing.lineTo(6, 0);
    drawing.stroke();
    return context.createPattern(tile, "repeat");
  }

  drawBlock(context, box, i) {
    const [address, bytes] = box.chunk;
    const block = this.moment.blocks[i];
    const scale = (box.wide - 1) / bytes;
    const begin = Math.max(block[0] - address, 0) * scale;
    const end = Math.min(block[0] + block[1] - address, bytes) * scale;
    const site = this.run.sites[block[3]];
    context.fillStyle = site ? tagColour(this.run, site.tag) : groupColour(10);
    context.fillRect(box.left + begin, box.top, Math.max(end - begin - 0.4, 0.6), 24);
    this.spots.push({ i, box, left: box.left + begin, wide: Math.max(end - begin, 0.6) });
  }

  outline(context) {
    context.strokeStyle = colours.text;
    context.lineWidth = 2;
    for (const spot of this.spots)
      if (spot.i === this.block) context.strokeRect(spot.left + 1, spot.box.top + 1, Math.max(spot.wide - 2, 1), 22);
  }

  point(event) {
    const area = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    const inside = (one) => x >= one.left && x < one.left + one.wide;
    const spot = this.spots && this.spots.find((one) => one.box.top <= y && y < one.box.top + 24 && inside(one));
    if (spot) this.tell(spot.i);
    else if (this.boxes) {
      const box = this.boxes.find((one) => one.top <= y && y < one.top + 24 && inside(one));
      if (box) this.tellChunk(box.chunk);
    }
  }

  onKey(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -50, PageDown: 50 };
    if (!(event.key in steps) || this.moment.blocks.length === 0) return;
    this.block = Math.min(Math.max(this.block + steps[event.key], 0), this.moment.blocks.length - 1);
    this.draw();
    this.tell(this.block);
    event.preventDefault();
  }

  tell(i) {
    const [address, bytes, us, site, thread] = this.moment.blocks[i];
    const about = this.run.sites[site];
    const next = this.moment.blocks[i + 1];
    this.block = i;
    byId("chunk-readout").textContent = `${hexText(address)}: ${bytesText(bytes)}, ` +
      `${about ? `${about.tag ? `"${about.tag}", ` : ""}${about.name}` : "one of many sites"}, ` +
      `${secondsText((this.moment.us - us) / 1e6)} old, by thread ${thread + 1}` +
      (next ? `; the next is ${bytesText(next[0] - address - bytes)} behind its end.` : ".");
  }

  tellChunk([address, bytes, stream, live, blocks]) {
    byId("chunk-readout").textContent = `Chunk ${hexText(address)} of ${bytesText(bytes)}, stream ${hexText(stream)}: ` +
      `${bytesText(live)} live in ${countText(blocks)} blocks, ${bytesText(bytes - live)} free.`;
  }
}
