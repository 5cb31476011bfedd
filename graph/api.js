// Finds types, fields and error codes on the page of the API. Without it the page is whole and has no field to search.
{
  const nav = document.querySelector("nav");
  const label = document.createElement("label");
  label.className = "find";
  label.textContent = "Find a type, field or error code ";
  const input = document.createElement("input");
  input.type = "search";
  label.append(input);
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  nav.before(label, status);

  const has = (element, text) => element.textContent.toLowerCase().includes(text);
  const find = () => {
    const text = input.value.trim().toLowerCase();
    let found = 0;
    for (const part of document.querySelectorAll("main > section, main > dl")) {
      const whole = text === "" || part.id.toLowerCase().includes(text);
      let any = whole;
      for (const name of part.querySelectorAll("dt")) {
        const meaning = name.nextElementSibling;
        const hit = whole || has(name, text) || has(meaning, text);
        name.hidden = meaning.hidden = !hit;
        any ||= hit;
        if (hit) found++;
      }
      part.hidden = !any;
    }
    for (const head of document.querySelectorAll("main > h2")) {
      let next = head.nextElementSibling;
      while (next && next.tagName !== "H2" && (next.hidden || next.tagName === "P")) next = next.nextElementSibling;
      head.hidden = next === null || next.tagName === "H2";
    }
    nav.hidden = text !== "";
    status.textContent =
      text === "" ? "" : found === 0 ? "Nothing has this text." : found === 1 ? "1 entry" : `${found} entries`;
  };
  input.addEventListener("input", find);
  // A link into the page must lead to something that is shown.
  addEventListener("hashchange", () => {
    if (input.value === "") return;
    input.value = "";
    find();
    document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target === input) return;
    event.preventDefault();
    input.focus();
  });
}
