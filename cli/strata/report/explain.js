// Places whose line or callers hold what is searched for.
for (const filter of document.querySelectorAll(".filter")) {
  filter.hidden = false;
  const rows = [...document.querySelectorAll("table.places tbody tr")];
  filter.querySelector("input").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const row of rows) {
      const head = row.cells[0];
      row.hidden = !(head.textContent + head.title).toLowerCase().includes(wanted);
    }
  });
}
