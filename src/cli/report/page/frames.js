// Which frames of a stack are shown, and in which order.

// By file, as most names of functions may be anybody's: the interpreter with its own library and the C library below it,
// and what was installed beside the program.
const DULL_FRAMES = [
  ["interpreter", /\((?:<frozen [^()]*>|[^()]*\/lib\/python3[^/()]*\/(?!(?:site|dist)-packages\/)[^()]*|(?:[^()]*\/)?(?:libpython3[^/()]*|python3[^/()]*|libc\.so[^/()]*|ld-linux[^/()]*|libpthread[^/()]*))\)$/],
  ["frameworks", /\((?:[^()]*\/(?:site|dist)-packages\/[^()]*|(?:[^()]*\/)?lib(?:torch|c10|jax|xla|tensorflow|cuda|cudnn|cublas|nccl|nv|onnxruntime|cupy|rmm)[^/()]*)\)$/],
];
const SHOWN_HOW = [["shown", "shown"], ["folded", "folded"], ["hidden", "hidden"]];

/** "function (file:line)" in its parts; of a native frame, the module is the file and the offset the line. */
function splitFrame(text) {
  const [, what, file = "", line = 0] = /^(.*?)(?: \(([^()]*?)(?::(\d{1,9}))?\))?$/s.exec(text);
  const [, name, offset = 0] = /^(.*?)(?:\+(0x[0-9a-f]+))?$/s.exec(what);
  return { name, file, line: Number(line) || Number(offset) };
}

class Frames {
  /** Controls, whose keys in the link begin with `prefix`; `changed` is called when the reader has changed one. */
  constructor(prefix, controls, changed) {
    this.how = DULL_FRAMES.map(() => "shown");
    this.ownHow = "folded";
    this.own = [];
    this.isInverted = false;
    this.byTag = false;
    const set = (change) => (value) => {
      change(value);
      changed();
    };
    controls.append(
      makeCheck(`${prefix}.tags`, "by tag first", set((value) => (this.byTag = value))),
      makeCheck(`${prefix}.inverted`, "inverted", set((value) => (this.isInverted = value))),
      ...DULL_FRAMES.map(([name], i) =>
        makeSelect(`${prefix}.${name}`, `frames of ${name === "interpreter" ? "the interpreter" : name}`, SHOWN_HOW,
          set((value) => (this.how[i] = value)))),
      makeSearch(`${prefix}.own`, "frames with", set((text) => (this.own = text.toLowerCase().split("|").filter(Boolean))),
        { placeholder: "one.py|another", size: "14" }),
      makeSelect(`${prefix}.ownhow`, "are", SHOWN_HOW.slice(1), set((value) => (this.ownHow = value))));
  }

  /** How a frame is shown, and as what. */
  lookAt(text) {
    const lower = text.toLowerCase();
    if (this.own.some((word) => lower.includes(word))) return [this.ownHow, this.own.join(" or ")];
    const at = DULL_FRAMES.findIndex(([, pattern], i) => this.how[i] !== "shown" && pattern.test(text.replace(/:\d+\)$/, ")")));
    return at < 0 ? ["shown", text] : [this.how[at], DULL_FRAMES[at][0]];
  }

  /** The names on the way from the root of a flame graph to a site, outermost first. Neighbours that are folded are one. */
  pathOf(run, site) {
    const path = [];
    for (const frame of run.stacks[site.stack]) {
      const [how, name] = this.lookAt(run.frames[frame]);
      if (how === "shown") path.push(name);
      else if (how === "folded" && path[path.length - 1] !== `[${name}]`) path.push(`[${name}]`);
    }
    if (!this.isInverted) path.reverse();
    if (this.byTag) path.unshift(site.tag || "no tag");
    else if (site.tag) path.splice(this.isInverted ? 0 : path.length, 0, `tag: ${site.tag}`);
    return path;
  }
}
