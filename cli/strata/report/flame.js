
// The flame graph, drawn anew for what is counted, where one looks, and what is searched for. A node is
// [frame, values, children]; a frame is [function, place, module, colour, shade].
{
  const data = JSON.parse(document.getElementById("flame-data").textContent);
  const flames = document.querySelector(".flames");
  const tools = document.querySelector(".flame-tools");
  const shown = document.querySelector(".shown");
  const search = tools.querySelector("input");
  const whole = tools.querySelector(".whole");
  const THINNEST = 0.0005, ROW = 1.7;
  let kind = data.first, path = [data.tree], boxes = new Map();

  // Bytes have three digits, as in the rest of the page (output/units.cpp), where only an exact half
  // may be rounded the other way.
  const amount = (value, of = kind) => {
    if (data.kinds[of][1] !== "bytes") return value.toLocaleString("en");
    let unit = 0;
    for (; value >= 1024 * 0.9995 && unit < 4; ++unit) value /= 1024;
    const decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return `${Number(value.toFixed(decimals))}\u00a0${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
  };
  const share = (value, all) => (all > 0 ? `${(100 * value / all).toFixed(1)}%` : "");
  const name = (node) => data.frames[node[0]][0];

  function tell(node) {
    const [, place] = data.frames[node[0]];
    shown.textContent = `${name(node)}${place ? "  " + place : ""}\n` +
      data.kinds.map(([type], i) => `${type} ${amount(node[1][i], i)} (${share(node[1][i], data.tree[1][i])})`).join(" · ");
  }

  function rest() {
    const wanted = search.value.trim().toLowerCase();
    const all = data.tree[1][kind];
    const title = tools.querySelector("[aria-pressed=true]").textContent;
    shown.textContent = `${title}: ${amount(all)} in all.`;
    if (wanted === "") return;
    // What stands below a found frame is found with it.
    const found = (node) => name(node).toLowerCase().includes(wanted)
      ? node[1][kind] : node[2].reduce((sum, child) => sum + found(child), 0);
    const sum = found(data.tree);
    shown.textContent += `\nFound: ${amount(sum)} (${share(sum, all)})`;
  }

  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const focus = path[path.length - 1];
    const all = focus[1][kind];
    const parts = document.createDocumentFragment();
    boxes = new Map();
    let rows = path.length;
    const box = (node, trail, left, width, row) => {
      const [text, place, module, colour, shade] = data.frames[node[0]];
      const element = document.createElement("div");
      element.className = "f" + (width < 0.01 ? " thin" : "") + (row < path.length - 1 ? " above" : "") +
        (wanted !== "" && text.toLowerCase().includes(wanted) ? " found" : "");
      element.style.cssText = `left:${100 * left}%;width:${100 * width}%;top:${ROW * row}em;` +
        `--c:var(--s${colour});--k:${shade}`;
      element.textContent = width < 0.01 ? "" : text;
      element.title = [text, place, module, `${amount(node[1][kind])} (${share(node[1][kind], data.tree[1][kind])})`]
        .filter(Boolean).join("\n");
      element.tabIndex = 0;
      element.setAttribute("role", "button");
      boxes.set(element, trail);
      parts.append(element);
      rows = Math.max(rows, row + 1);
    };
    path.slice(0, -1).forEach((node, row) => box(node, path.slice(0, row + 1), 0, 1, row));
    const lay = (node, trail, left, row) => {
      const width = all > 0 ? node[1][kind] / all : 0;
      if (width < THINNEST) return;
      box(node, trail, left, width, row);
      for (const child of node[2]) {
        lay(child, [...trail, child], left, row + 1);
        left += child[1][kind] / all;
      }
    };
    lay(focus, path, 0, path.length - 1);
    flames.replaceChildren(parts);
    flames.style.height = `${ROW * rows}em`;
    flames.classList.toggle("searching", wanted !== "");
    whole.disabled = path.length === 1;
  }

  const look = (trail) => { path = trail; draw(); tell(trail[trail.length - 1]); };
  const trail_at = (event) => boxes.get(event.target.closest(".f"));
  flames.addEventListener("click", (event) => { const trail = trail_at(event); if (trail) look(trail); });
  flames.addEventListener("keydown", (event) => {
    const trail = trail_at(event);
    if (trail && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); look(trail); }
  });
  for (const kind_of_event of ["mouseover", "focusin"]) {
    flames.addEventListener(kind_of_event, (event) => { const trail = trail_at(event); if (trail) tell(trail[trail.length - 1]); });
  }
  flames.addEventListener("mouseleave", rest);
  whole.addEventListener("click", () => { path = [data.tree]; draw(); rest(); });
  search.addEventListener("input", () => { draw(); rest(); });
  for (const button of tools.querySelectorAll("[data-kind]")) {
    button.addEventListener("click", () => {
      for (const other of tools.querySelectorAll("[data-kind]")) other.setAttribute("aria-pressed", String(other === button));
      kind = Number(button.dataset.kind);
      draw();
      rest();
    });
  }
  tools.hidden = false;
  draw();
  rest();
}
