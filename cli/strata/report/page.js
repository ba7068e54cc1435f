"use strict";

// A click on a contender fades all others, in plots and tables; another click brings them back.
for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const is_on = button.getAttribute("aria-pressed") !== "true";
    for (const other of document.querySelectorAll(".legend button")) {
      other.setAttribute("aria-pressed", String(is_on && other === button));
    }
    document.body.classList.toggle("alone", is_on);
    for (const mark of document.querySelectorAll("main [data-series]")) {
      mark.classList.toggle("chosen", is_on && mark.dataset.series === button.dataset.series);
    }
  });
}

// A click on a column's title sorts by it, another one turns it round. Cells without a number stay last.
const key_of = (row, column) => row.cells[column]?.dataset.v ?? row.cells[column]?.textContent.trim() ?? "";
const is_number = (text) => text !== "" && !isNaN(text);
function compare(a, b) {
  if (is_number(a) && is_number(b)) return a - b;
  return a.localeCompare(b, "en", { numeric: true });
}
for (const table of document.querySelectorAll("table.sortable")) {
  const titles = [...table.tHead.rows[0].cells];
  titles.forEach((title, column) => title.querySelector("button")?.addEventListener("click", () => {
    const way = title.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const other of titles) other.removeAttribute("aria-sort");
    title.setAttribute("aria-sort", way);
    const rows = [...table.tBodies[0].rows].map((row) => [key_of(row, column), row]);
    rows.sort(([a], [b]) => {
      if ((a === "") !== (b === "")) return a === "" ? 1 : -1;
      return way === "ascending" ? compare(a, b) : compare(b, a);
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }));
}

// On paper nothing can be opened.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
