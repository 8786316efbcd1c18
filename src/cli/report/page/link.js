// What the reader has chosen is kept in the fragment of the page's address, so that a link to it shows the same.

class Link {
  constructor() {
    this.fields = new Map();
    this.chosen = new Map();
    window.addEventListener("hashchange", () => this.restore());
  }

  /** `apply` shows a value that came with the address. Returns the value of now. */
  add(key, usual, apply) {
    this.fields.set(key, { usual, apply });
    return this.valueOf(key);
  }

  valueOf(key) {
    return this.chosen.get(key) ?? this.fields.get(key).usual;
  }

  keep(key, value) {
    if (value === this.fields.get(key).usual) this.chosen.delete(key);
    else this.chosen.set(key, value);
    const [page] = location.href.split("#");
    const inOrder = [...this.fields.keys()].filter((each) => this.chosen.has(each));
    const fragment = new URLSearchParams(inOrder.map((each) => [each, this.chosen.get(each)])).toString();
    try {
      history.replaceState(null, "", fragment ? `${page}#${fragment}` : page);
    } catch {
      // Within a page of others, such as a notebook, the address is not ours to change.
    }
  }

  restore() {
    const said = location.hash.slice(1);
    // A link to a part of the page: the browser has gone there.
    if (said && !said.includes("=")) return this.keep("at", said);
    const wanted = new URLSearchParams(said);
    for (const [key, { usual, apply }] of [...this.fields]) {
      const value = wanted.get(key) ?? usual;
      if (value === this.valueOf(key)) continue;
      this.keep(key, value);
      apply(value);
    }
    return undefined;
  }
}

const link = new Link();

/** A labelled control whose value is part of the link. `setting` is the property of `input` that has it. */
function makeControl(key, input, event, setting, texts, act) {
  const show = (value) => {
    input[setting] = setting === "checked" ? value === "1" : value;
    if (setting === "value" && input.value !== value) link.keep(key, (input.value = link.fields.get(key).usual));
  };
  const usual = setting === "checked" ? "" : input.value;
  const apply = (value) => {
    show(value);
    act(input[setting]);
  };
  show(link.add(key, usual, apply));
  input.addEventListener(event, () => {
    link.keep(key, setting === "checked" ? (input.checked ? "1" : "") : input.value);
    act(input[setting]);
  });
  return make("label", {}, ...texts);
}

function makeSelect(key, text, choices, act, usual) {
  const select = make("select", {}, ...choices.map(([value, words]) => make("option", { value }, words)));
  if (usual !== undefined) select.value = usual;
  return makeControl(key, select, "change", "value", [text, select], act);
}

function makeCheck(key, text, act) {
  const box = make("input", { type: "checkbox" });
  return makeControl(key, box, "change", "checked", [box, text], act);
}

function makeSearch(key, text, act, attributes) {
  const input = make("input", { type: "search", ...attributes });
  return makeControl(key, input, "input", "value", [text, input], act);
}

function makeButton(text, act) {
  return make("button", { type: "button", on: { click: act } }, text);
}
