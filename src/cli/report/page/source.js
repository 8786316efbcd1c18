// Lines of the program's source around those of a frame, where the report has them.

function sourceLines(run, text) {
  const source = run.sourceOf.get(text);
  if (!source) return [];
  const { line } = splitFrame(text);
  const width = String(source.first + source.lines.length).length;
  return [make("pre", { class: "source", tabindex: "0", "aria-label": `Source of ${text}` },
    ...source.lines.map((code, i) => {
      const number = source.first + i;
      const words = `${String(number).padStart(width)}  ${code}\n`;
      return number === line ? make("mark", {}, words) : words;
    }))];
}
