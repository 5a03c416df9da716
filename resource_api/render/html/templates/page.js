"use strict";
(() => {
  const field = document.getElementById("search");
  const matches = document.getElementById("matches");
  const chunks = [...document.querySelectorAll(".chunk")];
  const sections = [...document.querySelectorAll("main > section")];
  let rows = null;

  const all = () => {
    rows ??= chunks.flatMap((chunk) => [...chunk.children]).map((row) => [row, row.textContent.toLowerCase()]);
    return rows;
  };

  const search = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const [row, text] of all()) {
      row.hidden = !words.every((word) => text.includes(word));
      count += row.hidden ? 0 : 1;
    }
    for (const part of [...chunks, ...sections]) {
      part.hidden = words.length > 0 && !part.querySelector(".row:not([hidden])");
    }
    matches.textContent = words.length ? `${count} of ${rows.length}` : "";
  };

  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });

  const openTarget = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    if (target.hidden) {
      field.value = "";
      search();
    }
    if (target.tagName === "DETAILS") target.open = true;
    target.scrollIntoView({ block: "center" });
    target.querySelector("summary")?.focus({ preventScroll: true });
  };
  addEventListener("hashchange", openTarget);
  if (location.hash) openTarget();

  const setAll = (open) => {
    for (const [row] of all()) if (row.tagName === "DETAILS" && !row.hidden) row.open = open;
  };
  const button = document.getElementById("open");
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(open));
    setAll(open);
  });

  const step = (by) => {
    const visible = all().map(([row]) => row).filter((row) => !row.hidden);
    const next = visible[visible.indexOf(document.activeElement.closest(".row")) + by] ?? visible[0];
    const head = next?.querySelector("summary, .head");
    head?.focus({ preventScroll: true });
    head?.scrollIntoView({ block: "nearest" });
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape" && event.target === field) {
      field.value = "";
      search();
      field.blur();
    } else if (event.target !== field && event.key === "/") {
      event.preventDefault();
      field.focus();
    } else if (event.target !== field && (event.key === "j" || event.key === "k")) {
      step(event.key === "j" ? 1 : -1);
    }
  });

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const element of closed) element.open = true;
  });
  addEventListener("afterprint", () => {
    for (const element of closed) element.open = false;
  });

  for (const item of document.querySelectorAll(".arcs li")) {
    const mark = (on) => () => {
      const parts = document.querySelectorAll(`.arcs [data-ends~="${item.id}"]`);
      for (const part of parts) part.classList.toggle("near", on);
    };
    item.addEventListener("mouseenter", mark(true));
    item.addEventListener("mouseleave", mark(false));
    item.addEventListener("focusin", mark(true));
    item.addEventListener("focusout", mark(false));
  }
})();
