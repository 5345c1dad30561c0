"use strict";
// The page is complete without this script: it adds sorting, a filter for flips, and a mark that says that it ran.
(function () {
  const root = document.documentElement;
  // What the policy blocks anywhere in the page, also before this script ran, where the browser keeps a record of it.
  let blocked = 0;
  const count = function (more) {
    blocked += more;
    root.dataset.blocked = String(blocked);
  };
  if (window.ReportingObserver) {
    new ReportingObserver(function (reports) { count(reports.length); }, { types: ["csp-violation"], buffered: true }).observe();
  } else {
    document.addEventListener("securitypolicyviolation", function () { count(1); });
  }
  root.dataset.blocked = "0";
  root.dataset.styled = getComputedStyle(root).getPropertyValue("--styled").trim() === "1" ? "yes" : "no";

  // Sorts the tasks of a table; the rows of other kinds stay where they are.
  function sortBy(header, column) {
    const table = header.closest("table");
    const body = table.querySelector("tbody.task");
    const down = header.getAttribute("aria-sort") !== "descending";
    for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = function (row) { return Number(row.cells[column].dataset.value); };
    const rows = Array.from(body.rows).filter(function (row) { return !row.classList.contains("group"); });
    rows.sort(function (a, b) { return down ? value(b) - value(a) : value(a) - value(b); });
    for (const row of rows) body.append(row);
  }
  for (const header of document.querySelectorAll("th[data-sortable]")) {
    const body = header.closest("table").querySelector("tbody.task");
    if (!body || body.rows.length < 3) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.title = "sort the tasks";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", function () { sortBy(header, header.cellIndex); });
  }

  const controls = document.getElementById("flip-controls");
  if (controls) {
    const flips = Array.from(document.querySelectorAll("details.flip"));
    const text = document.getElementById("flip-text");
    const way = document.getElementById("flip-way");
    const count = document.getElementById("flip-count");
    const filter = function () {
      const wanted = text.value.trim().toLowerCase();
      let shown = 0;
      for (const flip of flips) {
        const fits = (!way.value || flip.dataset.way === way.value) && (!wanted || flip.textContent.toLowerCase().includes(wanted));
        flip.hidden = !fits;
        if (fits) shown += 1;
      }
      if (wanted || way.value) for (const rest of document.querySelectorAll("details.rest")) rest.open = true;
      count.textContent = shown + " of " + flips.length + " shown";
    };
    const openAll = function (open) {
      for (const rest of document.querySelectorAll("details.rest")) rest.open = open || rest.open;
      for (const flip of flips) if (!flip.hidden) flip.open = open;
    };
    text.addEventListener("input", filter);
    way.addEventListener("change", filter);
    controls.addEventListener("submit", function (event) { event.preventDefault(); });
    document.getElementById("flip-open").addEventListener("click", function () { openAll(true); });
    document.getElementById("flip-close").addEventListener("click", function () { openAll(false); });
    controls.hidden = false;
    filter();
  }
  // Violations are told in a task of their own, so the mark waits for two frames.
  setTimeout(function () { root.dataset.script = "done"; }, 50);
})();
