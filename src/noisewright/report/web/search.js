const tables = [...document.querySelectorAll(".table-of-answers")];
const search = document.getElementById("search");
const told = document.getElementById("matches");
if (search) {
  const texts = tables.map((table) => table.textContent.toLowerCase());
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    tables.forEach((table, place) => {
      const fits = words.every((word) => texts[place].includes(word));
      table.hidden = !fits;
      shown += fits;
    });
    told.textContent = words.length ? `${shown} of ${tables.length} tables` : "";
  });
  document.getElementById("open-all").addEventListener("click", () => tables.forEach((t) => { t.open = true; }));
  document.getElementById("close-all").addEventListener("click", () => tables.forEach((t) => { t.open = false; }));
}
addEventListener("beforeprint", () => tables.forEach((t) => { t.open = true; }));
