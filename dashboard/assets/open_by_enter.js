// Enter opens the run whose row has the focus: the grid would keep the key to itself. The cards, seen or not, are the rows' links.
window.longtailOpensByEnter ??= (addEventListener("keydown", (event) => {
  const cell = event.key === "Enter" && event.target.closest?.(".st-key-run-grid [role=gridcell]");
  const row = cell && /^glide-cell-\d+-(\d+)$/.exec(cell.id);
  if (!row) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  document.querySelectorAll(".run-cards a")[Number(row[1])]?.click();
}, true), true);
