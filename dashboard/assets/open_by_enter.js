// Enter opens the run whose row has the focus: the grid would keep the key to itself. The cards, seen or not, are the rows' links.
// While the grid is drawn anew its canvas has the focus, and the row gets it back later: that counts until something else is done.
window.longtailOpensByEnter ??= (() => {
  const LONGEST_WAIT_MS = 10_000;
  let waiting = new AbortController();
  const forget = () => {
    waiting.abort();
    waiting = new AbortController();
  };
  const open = (cell) => {
    const row = /^glide-cell-\d+-(\d+)$/.exec(cell.id);
    if (!row) return;
    forget();
    document.querySelectorAll(".st-key-run-cards .cards a")[Number(row[1])]?.click();
  };
  addEventListener("pointerdown", forget, true);
  addEventListener("keydown", (event) => {
    forget();
    const focused = event.key === "Enter" && event.target.closest?.(".st-key-run-grid :is(canvas, [role=gridcell])");
    if (!focused) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const signal = AbortSignal.any([waiting.signal, AbortSignal.timeout(LONGEST_WAIT_MS)]);
    if (focused.id) open(focused);
    else addEventListener("focusin", ({target}) => open(target), {signal});
  }, true);
  return true;
})();
