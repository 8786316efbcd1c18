// Sizes of blocks as a histogram, a bar for each doubling, which reads as a table.

class Histogram {
  constructor() {
    this.value = "mallocs";
    const choices = [["mallocs", "mallocs"], ...flameValues(false).filter(([value]) => ["peak", "end", "bytes"].includes(value))];
    byId("sizes-controls").append(makeSelect("sizes", "bars show", choices, (value) => {
      this.value = value;
      this.draw();
    }));
  }

  show(view) {
    this.view = view;
    this.draw();
  }

  draw() {
    const of = new Map(this.view.doublings.map((one) => [one.power, one[this.value]]));
    const powers = [...of].filter(([, value]) => value > 0).map(([power]) => power);
    const most = Math.max(...of.values());
    const rows = [];
    for (let power = Math.min(...powers); power <= Math.max(...powers); power += 1) {
      const value = of.get(power) || 0;
      const bar = make("div", { class: "bar" });
      bar.style.width = `${(100 * value) / most}%`;
      rows.push(make("tr", {}, make("th", { scope: "row" }, `to ${bytesText(2 ** power)}`),
        make("td", {}, this.value === "mallocs" ? countText(value) : bytesText(value)), make("td", {}, bar)));
    }
    byId("sizes-bars").replaceChildren(...rows);
  }
}
