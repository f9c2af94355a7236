// Sets the colours before anything is painted: a classic script, so that a page that was set to dark never flashes.
// What the person chose is a preference of the browser; without it the system decides.
(() => {
  let chosen = "";
  try {
    chosen = localStorage.getItem("binnacle.theme") ?? "";
  } catch {
    // storage is shut off
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
