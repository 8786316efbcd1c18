// Flame graphs: callers above, what they call below, or inverted; each box is as wide as what it holds.

const ROW = 22;

/** What boxes can be as wide as. Of a span of time, what grows is what it has more of at its end than at its begin. */
function flameValues(isPart) {
  return [
    ["peak", "live at the peak"], ["end", "live at the end"],
    ["grown", isPart ? "more live at the end than at the begin" : "grows from mark to mark"],
    ["bytes", "allocated in all"], ["temporary", "temporary: freed again at once"], ["rounding", "lost by rounding to 512"],
  ];
}

/** Draws a tree of paths, lets the reader go into it, and search it. Who derives from it says what the paths are. */
class FlameGraph {
  constructor(id) {
    this.id = id;
    this.host = byId(id);
    this.wanted = "";
    this.frames = new Frames(id, byId(`${id}-controls`), () => this.build());
    byId(`${id}-controls`).append(
      makeSearch(`${id}.search`, "search", (text) => {
        this.wanted = text.toLowerCase();
        this.draw();
      }),
      makeButton("Whole graph", () => this.zoomTo(this.root)));
    link.add(`${id}.zoom`, "", () => this.build());
    this.host.addEventListener("keydown", (event) => this.onKey(event));
    drawings.add(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.host.parentElement);
  }

  /** `paths` are {names, amounts, tag}, with an amount of each run. A node's value is the largest of its own amounts, and
   * its children's values. */
  setPaths(paths) {
    const makeNode = (name, parent) => ({ name, parent, depth: parent ? parent.depth + 1 : 0, children: new Map(), value: 0,
      amounts: [0, 0], own: [0, 0] });
    this.root = makeNode("all", null);
    for (const { names, amounts, tag } of paths) {
      let node = this.root;
      const add = (sums) => amounts.forEach((amount, i) => (sums[i] += amount));
      add(node.amounts);
      for (const name of names) {
        if (!node.children.has(name)) node.children.set(name, makeNode(name, node));
        node = node.children.get(name);
        add(node.amounts);
        node.tag = node.tag === undefined || node.tag === tag ? tag : null;
      }
      add(node.own);
    }
    const addUp = (node) => {
      node.value = Math.max(...node.own);
      for (const child of node.children.values()) node.value += addUp(child);
      return node.value;
    };
    addUp(this.root);
    this.zoom = this.root;
    const path = link.valueOf(`${this.id}.zoom`);
    for (const name of path ? path.split("\n") : []) {
      if (!this.zoom.children.has(name)) break;
      this.zoom = this.zoom.children.get(name);
    }
    this.focused = this.zoom;
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
    const text = `${node.name}: ${this.amountText(node)}`;
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
    this.paint(node, box);
    this.shown.push({ node, box });
    this.host.append(box);
  }

  zoomTo(node) {
    this.zoom = node;
    this.focused = node;
    const names = [];
    for (let at = node; at.parent; at = at.parent) names.unshift(at.name);
    link.keep(`${this.id}.zoom`, names.join("\n"));
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
    this.tell(at.node);
  }

  tell() {}

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

/** Who holds memory in one run. */
class HolderGraph extends FlameGraph {
  constructor() {
    super("flame");
    this.value = "peak";
    byId("flame-controls").prepend(makeSelect("flame", "bytes", flameValues(false), (value) => {
      this.value = value;
      this.build();
    }));
  }

  show(view) {
    this.view = view;
    this.build();
  }

  build() {
    const { run, sites, words, isPart } = this.view;
    const held = sites.filter((site) => site[this.value]);
    this.setPaths(held.map((site) => ({ names: this.frames.pathOf(run, site), amounts: [site[this.value]], tag: site.tag })));
    const what = flameValues(isPart).find(([value]) => value === this.value)[1] + words;
    byId("flame-caption").textContent = this.root.value === 0 ? `Nothing is ${what}.`
      : `${bytesText(this.root.value)} ${what}, in ${countText(held.length)} ` +
        `${held.length === 1 ? "call site" : "call sites"}. ` +
        "Enter or a click goes into a box, Escape back.";
  }

  amountText(node) {
    return `${bytesText(node.value)}, ${((100 * node.value) / this.root.value).toFixed(1)} %`;
  }

  paint(node, box) {
    if (node.tag !== undefined && node.tag !== null) box.style.borderLeftColor = tagColour(this.view.run, node.tag);
  }

  tell(node) {
    byId("flame-source").replaceChildren(...sourceLines(this.view.run, node.name));
  }
}

function withoutLine(text) {
  const { name, file } = splitFrame(text);
  return file ? `${name} (${file})` : name;
}

/** What two runs differ in. Frames are the same if function and file are, since an edit moves lines. */
class DifferenceGraph extends FlameGraph {
  constructor() {
    super("difference");
    this.value = "peak";
    byId("difference-controls").prepend(makeSelect("difference", "bytes", flameValues(false), (value) => {
      this.value = value;
      this.build();
    }));
  }

  show(runs, pairs) {
    this.runs = runs;
    // What has another name in the second run is told under that: files, and functions that allocate.
    const both = pairs.filter(({ before: a, after: b }) => a && b);
    this.files = new Map(both.map(({ before: a, after: b }) => [a.file, b.file]));
    this.functions = new Map(both.map(({ before: a, after: b }) => [withoutLine(a.text), withoutLine(b.text)]));
    this.build();
  }

  build() {
    const paths = this.runs.flatMap((run, which) => run.sites.filter((site) => site[this.value]).map((site) => ({
      names: this.frames.pathOf(run, site).map((name) => (which === 0 ? this.newName(name) : withoutLine(name))), tag: site.tag,
      amounts: which === 0 ? [site[this.value], 0] : [0, site[this.value]],
    })));
    this.setPaths(paths);
    const what = flameValues(false).find(([value]) => value === this.value)[1];
    byId("difference-caption").textContent = this.root.value === 0 ? `In both runs nothing is ${what}.`
      : `${this.amountText(this.root)}: ${what}. A box is as wide as the run that has more of it; red has become more, ` +
        "blue less.";
  }

  newName(text) {
    const { name, file } = splitFrame(text);
    return this.functions.get(withoutLine(text)) || (this.files.has(file) ? `${name} (${this.files.get(file)})` : withoutLine(text));
  }

  amountText({ amounts: [before, after] }) {
    if (before === after) return `${bytesText(after)} in both`;
    return `${after > before ? "+" : ""}${bytesText(after - before)} (${bytesText(before)} before, ${bytesText(after)} after)`;
  }

  paint({ amounts: [before, after] }, box) {
    if (before === after) return;
    const share = Math.round(10 + (20 * Math.abs(after - before)) / Math.max(before, after));
    box.style.background = `color-mix(in srgb, var(${after > before ? "--more" : "--less"}) ${share}%, var(--panel))`;
  }
}
