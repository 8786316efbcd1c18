// Tables that can be sorted, filtered and copied.

const FIRST_ROWS = 50;

class SortedTable {
  constructor(host, columns, rows, options) {
    Object.assign(this, { host, columns, rows, options, wanted: "", isWhole: false });
    this.sortBy = options.sortBy === undefined ? -1 : options.sortBy;
    this.isRising = false;
    this.head = make("tr");
    this.body = make("tbody");
    this.more = make("button", { type: "button", on: { click: () => {
      this.isWhole = true;
      this.draw();
    } } });
    const controls = make("div", { class: "controls" });
    if (options.filter !== false && rows.length > 5) {
      const filter = make("input", { type: "search", on: { input: () => {
        this.wanted = filter.value.toLowerCase();
        this.draw();
      } } });
      controls.append(make("label", {}, "only with", filter));
    }
    const copy = make("button", { type: "button", on: { click: () => this.copy(copy) } }, "Copy as TSV");
    controls.append(copy);
    const label = host.getAttribute("data-label") || "Table";
    host.replaceChildren(controls,
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
        make("table", {}, make("caption", { hidden: true }, label), make("thead", {}, this.head), this.body)),
      this.more);
    columns.forEach((column, i) => {
      const button = make("button", { type: "button", on: { click: () => this.sort(i) } }, column.name);
      this.head.append(make("th", { scope: "col", class: column.isText ? "left" : undefined }, button));
    });
    this.draw();
  }

  sort(i) {
    this.isRising = this.sortBy === i ? !this.isRising : Boolean(this.columns[i].isText);
    this.sortBy = i;
    this.draw();
  }

  chosen() {
    const words = (row) => row.filter((cell) => typeof cell === "string").join("\n").toLowerCase();
    const rows = this.rows.filter((row) => !this.wanted || words(row).includes(this.wanted));
    if (this.sortBy < 0) return rows;
    const sign = this.isRising ? 1 : -1;
    const [i, isText] = [this.sortBy, this.columns[this.sortBy].isText];
    return [...rows].sort((a, b) => sign * (isText ? (a[i] < b[i] ? -1 : a[i] > b[i] ? 1 : 0) : a[i] - b[i]));
  }

  draw() {
    [...this.head.children].forEach((cell, i) => {
      if (i === this.sortBy) cell.setAttribute("aria-sort", this.isRising ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    });
    const rows = this.chosen();
    const shown = this.isWhole ? rows : rows.slice(0, FIRST_ROWS);
    this.body.replaceChildren(...shown.map((row) => make("tr", {}, ...row.map((cell, i) => {
      const column = this.columns[i];
      const kind = column.isText ? `left name${column.isShort ? " short" : ""}` : undefined;
      const title = column.show === bytesText && cell !== null ? `${cell} bytes` : undefined;
      return make("td", { class: kind, title }, cell === null ? "" : column.show ? column.show(cell) : String(cell));
    }))));
    this.more.hidden = shown.length === rows.length;
    this.more.textContent = `Show all ${countText(rows.length)} rows`;
  }

  copy(button) {
    const line = (cells) => cells.map((cell) => String(cell === null ? "" : cell).replace(/[\t\n]/g, " ")).join("\t");
    const text = [line(this.columns.map((column) => column.name)), ...this.chosen().map(line)].join("\n");
    const area = make("textarea", { "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    button.textContent = isDone ? "Copied" : "The browser refused";
    button.focus();
    setTimeout(() => (button.textContent = "Copy as TSV"), 2000);
  }
}

function showTable(host, columns, rows, options) {
  if (rows.length === 0) {
    host.replaceChildren(make("p", { class: "note" }, options.empty || "There are none."));
    return null;
  }
  return new SortedTable(host, columns, rows, options);
}

const NAME_COLUMNS = [{ name: "call site", isText: true }, { name: "tag", isText: true, isShort: true }];

function showTables(run) {
  const count = { show: countText };
  const bytes = { show: bytesText };
  showTable(byId("sites-table"), [
    ...NAME_COLUMNS, { name: "live at the peak", ...bytes }, { name: "blocks then", ...count },
    { name: "live at the end", ...bytes }, { name: "mallocs", ...count }, { name: "allocated in all", ...bytes },
    { name: "mean life", show: secondsText }, { name: "temporary", show: (share) => `${(100 * share).toFixed(0)} %` },
  ], run.sites.map((site) => [site.name, site.tag, site.peak, site.peakBlocks, site.end, site.mallocs, site.bytes, site.life,
    site.temporaryMallocs / Math.max(site.mallocs, 1)]), { sortBy: 2 });
  byId("sites-note").textContent = run.sites_left_out
    ? `${countText(run.sites_left_out)} call sites that hold less are left out.` : "";
  showTable(byId("leaks-table"), [
    ...NAME_COLUMNS, { name: "live at the end", ...bytes }, { name: "blocks", ...count },
    { name: "grown to", show: (value) => (value ? bytesText(value) : "") }, { name: "grows by", isText: true },
  ], run.sites.filter((site) => site.end > 0 || site.grown).sort((a, b) => b.grown - a.grown || b.end - a.end)
    .map((site) => [site.name, site.tag, site.end, site.endBlocks, site.grown, site.growth]),
  { empty: "Nothing is live at the end, and nothing grew." });
  showTable(byId("sizes-table"), [
    { name: "bytes asked for", show: countText }, { name: "mallocs", ...count }, { name: "most live at once", ...count },
    { name: "bytes then", ...bytes },
  ], run.sizes.map(([size, mallocs, most]) => [size, mallocs, most, size * most]), { sortBy: 3 });
  byId("sizes-note").textContent = run.sizes_left_out
    ? `${countText(run.sizes_left_out)} sizes that hold less are left out.` : "";
  showTable(byId("failed-table"), [
    { name: "after", show: secondsText }, { name: "bytes", ...bytes }, { name: "tag", isText: true },
  ], run.failed.map(([us, size, tag]) => [us / 1e6, size, tag]), { empty: "No malloc has failed." });
}
