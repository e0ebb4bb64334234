// Controls and pictures that have no name for a screen reader. Gives their markup.
[...document.querySelectorAll("button, input, select, summary, [tabindex='0'], [role]")]
  .filter((it) => {
    const labels = it.labels ? [...it.labels].map((label) => label.textContent) : [];
    const by = it.getAttribute("aria-labelledby");
    const other = by && document.getElementById(by) ? document.getElementById(by).textContent : "";
    const name = [it.getAttribute("aria-label"), it.textContent, other, ...labels].join("").trim();
    return name === "" && it.id !== "hint";
  })
  .map((it) => it.outerHTML.slice(0, 120));
