// Flame graph: callers above, what they call below; each box is as wide as what it holds.

const FLAME_VALUES = [
  ["peak", "live at the peak"], ["end", "live at the end"], ["growing", "grows from mark to mark"],
  ["bytes", "allocated in all"], ["temporary", "temporary: freed again at once"], ["rounding", "lost by rounding to 512"],
];
const ROW = 22;

class FlameGraph {
  constructor() {
    this.host = byId("flame");
    this.value = "peak";
    this.byTag = false;
    this.wanted = "";
    const tagBox = make("input", { type: "checkbox", on: { change: () => {
      this.byTag = tagBox.checked;
      this.build();
    } } });
    const search = make("input", { type: "search", on: { input: () => {
      this.wanted = search.value.toLowerCase();
      this.draw();
    } } });
    byId("flame-controls").append(
      makeSelect("bytes", FLAME_VALUES, (value) => {
        this.value = value;
        this.build();
      }),
      make("label", {}, tagBox, "by tag first"), make("label", {}, "search", search),
      make("button", { type: "button", on: { click: () => this.zoomTo(this.root) } }, "Whole graph"));
    this.host.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => this.draw()).observe(this.host.parentElement);
  }

  show(run) {
    this.run = run;
    this.build();
  }

  build() {
    const { run } = this;
    this.root = { name: "all", value: 0, children: new Map(), parent: null, depth: 0 };
    for (const site of run.sites) {
      const value = this.value === "growing" ? site.grown : site[this.value];
      if (!value) continue;
      let node = this.root;
      node.value += value;
      const frames = run.stacks[site.stack].map((frame) => run.frames[frame]).reverse();
      if (this.byTag) frames.unshift(site.tag || "no tag");
      else if (site.tag) frames.push(`tag: ${site.tag}`);
      for (const name of frames) {
        if (!node.children.has(name))
          node.children.set(name, { name, value: 0, children: new Map(), parent: node, depth: node.depth + 1 });
        node = node.children.get(name);
        node.value += value;
        node.tag = node.tag === undefined || node.tag === site.tag ? site.tag : null;
      }
    }
    this.zoom = this.root;
    this.focused = this.root;
    const what = FLAME_VALUES.find(([value]) => value === this.value)[1];
    byId("flame-caption").textContent = this.root.value === 0 ? `Nothing is ${what}.`
      : `${bytesText(this.root.value)} ${what}, in ${countText(run.sites.length)} ` +
        `${run.sites.length === 1 ? "call site" : "call sites"}. ` +
        "Enter or a click goes into a box, Escape back.";
    this.draw();
  }

  draw() {
    if (!this.root) return;
    const width = this.host.parentElement.clientWidth;
    this.host.replaceChildren();
    this.shown = [];
    if (this.root.value === 0) {
      this.host.style.height = "0";
      return;
    }
    const path = [];
    for (let node = this.zoom.parent; node; node = node.parent) path.unshift(node);
    for (const node of path) this.place(node, 0, width, true);
    let deepest = this.zoom.depth;
    const visit = (node, left, wide) => {
      this.place(node, left, wide, false);
      deepest = Math.max(deepest, node.depth);
      let at = left;
      for (const child of [...node.children.values()].sort((a, b) => b.value - a.value)) {
        const part = (wide * child.value) / node.value;
        if (part >= 1.5) visit(child, at, part);
        at += part;
      }
    };
    visit(this.zoom, 0, width);
    this.host.style.height = `${(deepest + 1) * ROW}px`;
    this.focusOn(this.focused, false);
  }

  place(node, left, wide, isAbove) {
    const share = ((100 * node.value) / this.root.value).toFixed(1);
    const text = `${node.name}: ${bytesText(node.value)}, ${share} %`;
    const found = this.wanted && node.name.toLowerCase().includes(this.wanted);
    const box = make("div", {
      role: "treeitem", tabindex: "-1", title: text, "aria-label": text, "aria-level": String(node.depth + 1),
      "aria-expanded": node.children.size ? String(!isAbove || node !== this.zoom) : undefined,
      class: `${isAbove ? "above" : ""} ${found ? "found" : ""}`.trim() || undefined,
      on: { click: () => this.zoomTo(node) },
    }, wide > 30 ? text : "");
    box.style.left = `${left}px`;
    box.style.width = `${Math.max(wide, 1)}px`;
    box.style.top = `${node.depth * ROW}px`;
    if (node.tag !== undefined && node.tag !== null) box.style.borderLeftColor = tagColour(this.run, node.tag);
    this.shown.push({ node, box });
    this.host.append(box);
  }

  zoomTo(node) {
    this.zoom = node;
    this.focused = node;
    this.draw();
    this.focusOn(node, true);
  }

  focusOn(node, take) {
    const at = this.shown.find((one) => one.node === node) || this.shown[0];
    if (!at) return;
    for (const one of this.shown) one.box.tabIndex = -1;
    at.box.tabIndex = 0;
    this.focused = at.node;
    if (take) at.box.focus();
  }

  onKey(event) {
    const node = this.focused;
    const seen = new Set(this.shown.map((one) => one.node));
    const children = (one) => [...one.children.values()].sort((a, b) => b.value - a.value).filter((c) => seen.has(c));
    const beside = (by) => {
      if (!node.parent) return node;
      const all = children(node.parent);
      return all[all.indexOf(node) + by] || node;
    };
    const moves = { ArrowDown: () => children(node)[0] || node, ArrowUp: () => node.parent || node,
      ArrowRight: () => beside(1), ArrowLeft: () => beside(-1), Home: () => this.root };
    if (event.key in moves) this.focusOn(moves[event.key](), true);
    else if (event.key === "Enter" || event.key === " ") this.zoomTo(node);
    else if (event.key === "Escape") this.zoomTo(this.zoom.parent || this.root);
    else return;
    event.preventDefault();
  }
}
