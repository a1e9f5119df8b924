// Sorting: a header's button sorts its column; numbers by data-value, everything else as text.
function cellValue(row, column) {
  const cell = row.cells[column];
  const value = cell.dataset.value;
  if (value === undefined) return cell.textContent.trim();
  return value === "" ? null : Number(value);
}

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
}

function sortBy(table, header) {
  const column = header.cellIndex;
  const body = table.tBodies[0];
  const numeric = body.rows.length > 0 && body.rows[0].cells[column].dataset.value !== undefined;
  const current = header.getAttribute("aria-sort");
  const first = numeric ? "descending" : "ascending";
  const direction = current === null || current === "none" ? first : current === "descending" ? "ascending" : "descending";
  const sign = direction === "ascending" ? 1 : -1;
  const rows = [...body.rows].map((row) => [cellValue(row, column), row]);
  rows.sort(([a], [b]) => (a === null || b === null ? compare(a, b) : sign * compare(a, b)));
  body.append(...rows.map(([, row]) => row));
  for (const other of table.tHead.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", direction);
}

function makeSortable() {
  for (const button of document.querySelectorAll("th button.sort")) {
    button.addEventListener("click", () => sortBy(button.closest("table"), button.closest("th")));
  }
}
