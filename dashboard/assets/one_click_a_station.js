// The second one of two clicks would pass over a station of the tour: that is drawn by then, with the same button in the same place.
window.longtailOneClickAStation ??= (() => {
  addEventListener("click", (event) => {
    if (event.detail < 2 || !event.target.closest?.(".st-key-tour")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);
  return true;
})();
