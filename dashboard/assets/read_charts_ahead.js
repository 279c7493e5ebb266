// What draws the charts of a run is read while one looks at the list and nothing else is to be done: a click then finds it ready.
window.longtailReadsCharts ??= setTimeout(() => (window.requestIdleCallback ?? setTimeout)(() => import("$module")), 2000);
