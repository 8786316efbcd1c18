// Tables that can be sorted, filtered and copied.

const FIRST_ROWS = 50;

class SortedTable {
  constructor(host, columns, rows, options) {
    Object.assign(this, { host, columns, rows, options, isWhole: false });
    const usual = options.sortBy === undefined ? "" : columns[options.sortBy].name;
    this.setOrder(link.add(`${host.id}.sort`, usual, (text) => {
      this.setOrder(text);
      this.draw();
    }));
    this.head = make("tr");
    this.body = make("tbody");
    this.more = makeButton("", () => {
      this.isWhole = true;
      this.draw();
    });
    const controls = make("div", { class: "controls" });
    if (options.filter !== false && rows.length > 5) {
      controls.append(makeSearch(`${host.id}.filter`, "only with", (text) => {
        this.wanted = text.toLowerCase();
        this.draw();
      }));
      this.wanted = link.valueOf(`${host.id}.filter`).toLowerCase();
    }
    const copy = makeButton("Copy as TSV", () => this.copy(copy));
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

  /** By a column's name; a "<" before it: the least first. */
  setOrder(text) {
    this.isRising = text.startsWith("<");
    this.sortBy = this.columns.findIndex((column) => column.name === text.replace("<", ""));
  }

  sort(i) {
    this.isRising = this.sortBy === i ? !this.isRising : Boolean(this.columns[i].isText);
    this.sortBy = i;
    link.keep(`${this.host.id}.sort`, `${this.isRising ? "<" : ""}${this.columns[i].name}`);
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

/** The name of a call site, with its source where there is one. */
function siteCell(run) {
  return (text) => {
    const lines = sourceLines(run, text);
    return lines.length ? make("details", {}, make("summary", {}, text), ...lines) : text;
  };
}

function showTables({ run, words, isPart, sites, sizes, failed }) {
  const count = { show: countText };
  const bytes = { show: bytesText };
  const names = [{ ...NAME_COLUMNS[0], show: siteCell(run) }, NAME_COLUMNS[1]];
  for (const place of document.querySelectorAll(".span-words")) place.textContent = words;
  showTable(byId("sites-table"), [
    ...names, { name: "live at the peak", ...bytes }, { name: "blocks then", ...count },
    { name: "live at the end", ...bytes }, { name: "mallocs", ...count }, { name: "allocated in all", ...bytes },
    { name: "mean life", show: secondsText }, { name: "temporary", show: (share) => `${(100 * share).toFixed(0)} %` },
  ], sites.map((site) => [site.name, site.tag, site.peak, site.peakBlocks, site.end, site.mallocs, site.bytes, site.life,
    site.temporaryMallocs / Math.max(site.mallocs, 1)]), { sortBy: 2 });
  byId("sites-note").textContent = run.sites_left_out
    ? `${countText(run.sites_left_out)} call sites that hold less are left out.` : "";
  const grown = { show: (value) => (value ? bytesText(value) : "") };
  showTable(byId("leaks-table"), [
    ...names, { name: "live at the end", ...bytes }, { name: "blocks", ...count },
    ...(isPart ? [{ name: "more than at the begin", ...grown }]
      : [{ name: "grown to", ...grown }, { name: "grows by", isText: true }]),
  ], sites.filter((site) => site.grown || (site.end > 0 && !isPart)).sort((a, b) => b.grown - a.grown || b.end - a.end)
    .map((site) => [site.name, site.tag, site.end, site.endBlocks, site.grown, ...(isPart ? [] : [site.growth])]),
  { empty: isPart ? "No call site has more at the end than at the begin." : "Nothing is live at the end, and nothing grew." });
  showTable(byId("sizes-table"), [
    { name: "bytes asked for", show: countText }, { name: "mallocs", ...count }, { name: "most live at once", ...count },
    { name: "bytes then", ...bytes },
  ], sizes.map(({ size, mallocs, most }) => [size, mallocs, most, size * most]), { sortBy: 3 });
  byId("sizes-note").textContent = run.sizes_left_out
    ? `${countText(run.sizes_left_out)} sizes that hold less are left out.` : "";
  showTable(byId("failed-table"), [
    { name: "after", show: secondsText }, { name: "bytes", ...bytes }, { name: "tag", isText: true },
  ], failed.map(([us, size, tag]) => [us / 1e6, size, tag]), { empty: "No malloc has failed." });
}
