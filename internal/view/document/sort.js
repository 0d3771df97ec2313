// Sorts a table of rows by the clicked column. The page also works without this script.
for (const table of document.querySelectorAll("table.rows")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(h => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = body => {
        const cell = body.rows[0].cells[column];
        return cell.title || cell.textContent;
      };
      const numeric = head.classList.contains("num");
      const compare = (a, b) => {
        const x = key(a), y = key(b);
        if (x === "" || y === "") return (x === "") - (y === ""); // empty cells come last in both directions
        const order = numeric ? Number(x) - Number(y) : x.localeCompare(y);
        return down ? -order : order;
      };
      table.append(...[...table.tBodies].sort(compare));
    });
  });
}
