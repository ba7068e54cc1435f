// Places whose line or callers hold what is searched for.
for (const filter of document.querySelectorAll(".filter")) {
  filter.hidden = false;
  const rows = [...document.querySelectorAll("table.places tbody tr")];
  const say = (count) => { filter.querySelector("output").textContent = `${count} of ${rows.length} places`; };
  say(rows.length);
  filter.querySelector("input").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
      shown += !row.hidden;
    }
    say(shown);
  });
}
